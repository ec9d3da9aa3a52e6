"""What a caller gives, checked where it comes in: one sentence that names the argument, never a foreign error.

Each function takes the argument's name and its value, and returns the value in the one form that the code behind it
works with. NumPy is imported only where an array is asked for.
"""

import json
import math
import operator
import os
import reprlib
from collections.abc import Collection, Iterable
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = TypeVar("Kind")
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = 4


def shown(value: object) -> str:
    """A value as a sentence shows it: short, on one line, and with its kind where that says more."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{getattr(value, 'dtype', type(value).__name__)} of shape {shape}"
    return " ".join(_short.repr(value).split())


def whole(name: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """A whole number; True, 1.5 and "1" are not."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None or (least is not None and found < least) or (most is not None and found > most):
        raise TrimtabError(f"{name} must be a whole number{_range(least, most)}, not {shown(value)}.")
    return found


def number(name: str, value: object, *, least: float | None = None, most: float | None = None) -> float:
    """A finite number; True and "1" are not."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    found = float(value) if real else math.nan  # type: ignore[arg-type]
    inside = math.isfinite(found) and (least is None or found >= least) and (most is None or found <= most)
    if not inside:
        raise TrimtabError(f"{name} must be a number{_range(least, most)}, not {shown(value)}.")
    return found


def positive(name: str, value: object, hint: str = "") -> float:
    """A finite number above 0."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    found = float(value) if real else math.nan  # type: ignore[arg-type]
    if not (math.isfinite(found) and found > 0):
        raise TrimtabError(f"{name} must be a positive number, not {shown(value)}{hint}.")
    return found


def switch(name: str, value: object) -> bool:
    """True or False, and nothing that only counts as one."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise TrimtabError(f"{name} must be True or False, not {shown(value)}.")
    return bool(value)


def text(name: str, value: object) -> str:
    """A string that says something."""
    if not isinstance(value, str) or not value.strip():
        raise TrimtabError(f"{name} must be a word or a sentence (a string that is not empty), not {shown(value)}.")
    return writable(name, value)


def writable(name: str, value: str) -> str:
    """A string that can be written down: names of files and JSON can carry half a character, which no hash can."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TrimtabError(
            f"{name} holds half a character (a lone surrogate): {ascii(value)[:60]}; replace it."
        ) from None
    return value


def word(name: str, value: object, words: Collection[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in words:
        raise TrimtabError(f"{name} must be one of {', '.join(words)}, not {shown(value)}.")
    return value


def place(name: str, value: object) -> Path:
    """A path, with ~ standing for the home folder."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str):
        raise TrimtabError(f"{name} must be a path (a string or a pathlib.Path), not {shown(value)}.")
    if not path or "\0" in path:
        raise TrimtabError(f"{name} must be the path of a file or a folder, not {shown(path)}.")
    try:
        os.fsencode(path)
        return Path(path).expanduser()
    except UnicodeEncodeError:
        raise TrimtabError(f"{name} is {ascii(path)[:60]}, which no file here can be called; name another.") from None
    except RuntimeError:  # ~somebody, who has no home here
        raise TrimtabError(f"{name} is {shown(path)}, but the home folder that it starts from is not known.") from None


def names(name: str, value: object) -> tuple[str, ...]:
    """A list of strings, none of them empty; one bare string is refused, whose letters would be taken for names."""
    if isinstance(value, str):
        raise TrimtabError(f"{name} must be a list of names; give {shown(value.split(','))} instead of {value!r}.")
    if isinstance(value, bytes | dict) or not isinstance(value, Iterable):
        raise TrimtabError(f"{name} must be a list of names, not {shown(value)}.")
    try:
        found = tuple(value)
    except TypeError:  # an array without axes
        raise TrimtabError(f"{name} must be a list of names, not {shown(value)}.") from None
    for position, each in enumerate(found):
        if not isinstance(each, str):
            raise TrimtabError(f"{name} must hold strings; item {position} is {shown(each)}.")
        if not each.strip():
            raise TrimtabError(f"{name} must hold names that are not empty; item {position} is {each!r}.")
        writable(f"item {position} of {name}", each)
    return tuple(str(each) for each in found)


def instance(name: str, value: Kind, kind: Any, example: str) -> Kind:
    """A value of one kind, a class or a protocol; `example` says what is wanted."""
    if isinstance(value, type) or not isinstance(value, kind):  # a class has all that a protocol asks for, too
        given = f"the class {value.__name__}" if isinstance(value, type) else shown(value)
        raise TrimtabError(f"{name} must be {example}, not {given}.")
    return value


def names_or_paths(name: str, value: Kind) -> Kind:
    """A list of strings or paths; one alone is refused, whose letters would be taken for names."""
    if isinstance(value, list | tuple) and value and all(isinstance(each, str | os.PathLike) for each in value):
        return value
    raise TrimtabError(f"{name} must be a list of at least one name or path, not {shown(value)}.")


def facts(name: str, value: object) -> None:
    """A dict of what JSON can hold."""
    if not isinstance(value, dict):
        raise TrimtabError(f"{name} must be a dict of what JSON can hold, not {shown(value)}.")
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:  # an array or a set; a dict that holds itself
        raise TrimtabError(f"{name} must hold only what JSON can hold: {error}.") from None


def callback(name: str, value: object) -> None:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise TrimtabError(f"{name} must be a function, or None, not {shown(value)}.")


def numbers(name: str, value: object) -> "NDArray[Any]":
    """An array of numbers, of whatever kind and shape."""
    import numpy as np

    try:
        found = np.asarray(value)
    except Exception as error:  # whatever an object's own conversion raises: rows of unequal length, tensors on a GPU
        raise TrimtabError(f"{name} must be an array of numbers, and cannot be made one: {error}") from None
    if found.dtype.kind not in "fiu":
        raise TrimtabError(f"{name} must be an array of numbers, not {shown(found)}.")
    return found


def class_indices(name: str, value: object) -> "NDArray[np.int64]":
    """(N,) class indices: whole numbers, whatever the kind that holds them; 0.5 is none."""
    import numpy as np

    found = numbers(name, value)
    if found.ndim != 1:
        raise TrimtabError(f"{name} must be one class index per image, not an array of shape {found.shape}.")
    with np.errstate(invalid="ignore"):
        rounded = found.astype(np.int64)
    wrong = np.flatnonzero(rounded != found)
    if len(wrong):
        raise TrimtabError(f"{name} must be whole numbers; item {wrong[0]} is {found[wrong[0]]}.")
    return rounded


def _range(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f" of at most {most:g}"
    return f" of at least {least:g}" if most is None else f" from {least} to {most}"
