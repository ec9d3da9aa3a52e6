"""`njit`: numba's, with compiled code kept between processes wherever a place to write can be found.

Numba keeps it beside the source, or else in the user's cache folder, and fails on import where it may write to neither:
an installation that is read-only, used by an account without a home. Then trimtab's own cache folder ($TRIMTAB_CACHE)
takes it, and if that cannot be written either, each process compiles anew.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from trimtab.errors import TrimtabError
from trimtab.files import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(**options: Any) -> Callable[[Function], Function]:
    """The decorator `numba.njit(cache=True, **options)`."""

    def compile_and_keep(function: Function) -> Function:
        def kept() -> Function:
            return cast("Function", numba.njit(cache=True, **options)(function))

        try:
            return kept()
        except RuntimeError:  # no place beside the source, none in the user's cache folder
            before = numba.config.CACHE_DIR
            try:
                numba.config.CACHE_DIR = str(cache_folder("kernels"))  # for this function alone: it is decided here
                return kept()
            except (RuntimeError, TrimtabError):
                return cast("Function", numba.njit(**options)(function))
            finally:
                numba.config.CACHE_DIR = before

    return compile_and_keep
