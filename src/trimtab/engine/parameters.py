"""Hyper-parameters that know their range.

A method is a frozen dataclass whose fields are made here; the base class checks all of them once, when it is built.
"""

import math
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from trimtab.errors import TrimtabError


@dataclass(frozen=True)
class Range:
    """The values that a number may take, both ends included."""

    least: float
    most: float
    whole: bool

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be {self}"
        if self.whole and not isinstance(value, int):
            return f"must be {self}"
        if math.isnan(value) or not self.least <= value <= self.most:
            return f"must be {self}"
        return None

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.most == math.inf:
            return f"{kind} of at least {self.least:g}"
        return f"{kind} from {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Choice:
    """The words that a parameter may be."""

    words: tuple[str, ...]

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if value in self.words else f"must be {self}"

    def __str__(self) -> str:
        return " or ".join(repr(word) for word in self.words)


@dataclass(frozen=True)
class Truth:
    """True or False."""

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if isinstance(value, bool) else "must be True or False"

    def __str__(self) -> str:
        return "True or False"


def number(default: float, least: float = -math.inf, most: float = math.inf) -> Any:
    """A field that holds a number."""
    return field(default=default, metadata={"allowed": Range(least, most, whole=False)})


@dataclass(frozen=True)
class RangeOrAuto:
    """A number of a range, or the word "auto"."""

    range: Range

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if value == "auto" or not self.range.problem(value) else f"must be {self}"

    def __str__(self) -> str:
        return f"{self.range} or 'auto'"


def number_or_auto(default: float | str, least: float = -math.inf, most: float = math.inf) -> Any:
    """A field that holds a number, or "auto" to have it found from the stream."""
    return field(default=default, metadata={"allowed": RangeOrAuto(Range(least, most, whole=False))})


def slots(default: int) -> Any:
    """A field that holds a number of cache slots per class; 0 switches the cache off."""
    return field(default=default, metadata={"allowed": Range(0, math.inf, whole=True)})


def choice(default: str, words: Sequence[str]) -> Any:
    """A field that holds one of a few words."""
    return field(default=default, metadata={"allowed": Choice(tuple(words))})


def switch(default: bool) -> Any:
    """A field that is on or off."""
    return field(default=default, metadata={"allowed": Truth()})


def allowed(parameter: Field[Any]) -> str:
    """What a parameter may be, for people."""
    return str(parameter.metadata.get("allowed", "as documented"))


def check(owner: Any) -> None:
    """Refuse a parameter outside its range, with a message that names it and the range."""
    for parameter in fields(owner):
        rule = parameter.metadata.get("allowed")
        problem = rule.problem(getattr(owner, parameter.name)) if rule else None
        if problem:
            value = getattr(owner, parameter.name)
            default = "" if parameter.default is MISSING else f"; the default is {parameter.default!r}"
            raise TrimtabError(f"{type(owner).__name__}: {parameter.name} {problem}, not {value!r}{default}.")
