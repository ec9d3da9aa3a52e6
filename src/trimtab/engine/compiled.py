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


def code_for(function: Function, *arguments: Any) -> Function:
    """The compiled code of a function for arguments of just these types, called without looking at types again.

    Numba finds the code by the types of all arguments at each call: of tuples of forty arrays in 17 microseconds, a
    tenth of a step at 100 classes. Whoever holds the code answers for the types, and that arrays are in C order.
    """
    dispatcher = cast("Any", function)
    if not hasattr(dispatcher, "overloads"):  # numba is switched off
        return function
    types = tuple(numba.typeof(argument) for argument in arguments)
    dispatcher.compile(types)
    return cast("Function", dispatcher.overloads[types].entry_point)


def njit(**options: Any) -> Callable[[Function], Function]:
    """The decorator `numba.njit(cache=True, **options)`.

    What reorders sums (fastmath) goes into each caller. As functions of their own, callers would share whichever copy a
    process has loaded first, and the copies differ in the last bits: a process that compiles would not equal the next.
    """

    def compile_and_keep(function: Function) -> Function:
        into_callers = "fastmath" in options

        def kept() -> Function:
            return cast("Function", numba.njit(cache=True, forceinline=into_callers, **options)(function))

        try:
            return kept()
        except RuntimeError:  # no place beside the source, none in the user's cache folder
            before = numba.config.CACHE_DIR
            try:
                numba.config.CACHE_DIR = str(cache_folder("kernels"))  # for this function alone: it is decided here
                return kept()
            except (RuntimeError, TrimtabError):
                return cast("Function", numba.njit(forceinline=into_callers, **options)(function))
            finally:
                numba.config.CACHE_DIR = before

    return compile_and_keep
