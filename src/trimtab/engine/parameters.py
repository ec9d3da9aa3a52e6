"""Hyper-parameters that know their meaning and their range.

A method is a frozen dataclass whose fields are made here, once each: the default, what values are allowed, what the
parameter does, and its symbol in the paper. The base class checks the values when a method is built; docstrings, the
command `trimtab methods NAME` and the reference are written from the rest.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Protocol

from trimtab import arguments
from trimtab.errors import TrimtabError


class Rule(Protocol):
    """The values that a parameter may take; `str` says it for people."""

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""


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
class RangeOrNone:
    """A number of a range, or None where the parameter is not used."""

    range: Range

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if value is None or not self.range.problem(value) else f"must be {self}"

    def __str__(self) -> str:
        return f"{self.range}, or None"


@dataclass(frozen=True)
class Choice:
    """The words that a parameter may be."""

    words: tuple[str, ...]

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if isinstance(value, str) and value in self.words else f"must be {self}"

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


def parameter(default: Any, allowed: Rule, *, about: str, symbol: str = "") -> Any:
    """A field with any rule: `about` says what it does and when to change it, `symbol` is the paper's."""
    return field(default=default, metadata={"allowed": allowed, "about": about, "symbol": symbol})


def number(
    default: float, least: float = -math.inf, most: float = math.inf, *, about: str = "", symbol: str = ""
) -> Any:
    """A field that holds a number."""
    return parameter(default, Range(least, most, whole=False), about=about, symbol=symbol)


def number_or_none(least: float = -math.inf, most: float = math.inf, *, about: str = "", symbol: str = "") -> Any:
    """A field that holds a number, or None (the default) where another parameter leaves no use for it."""
    return parameter(None, RangeOrNone(Range(least, most, whole=False)), about=about, symbol=symbol)


def slots(default: int, *, least: int = 0, about: str = "", symbol: str = "") -> Any:
    """A field that holds a number of slots: of a cache per class, where 0 switches it off, or of a memory."""
    return parameter(default, Range(least, math.inf, whole=True), about=about, symbol=symbol)


def choice(default: str, words: Sequence[str], *, about: str = "", symbol: str = "") -> Any:
    """A field that holds one of a few words."""
    return parameter(default, Choice(tuple(words)), about=about, symbol=symbol)


def switch(default: bool, *, about: str = "", symbol: str = "") -> Any:
    """A field that is on or off."""
    return parameter(default, Truth(), about=about, symbol=symbol)


@dataclass(frozen=True)
class Described:
    """One parameter as people read of it."""

    name: str
    default: str
    allowed: str
    about: str
    symbol: str


def described(owner: type) -> list[Described]:
    """Every parameter of a method's class, in the order of declaration, those of its bases first."""
    return [_described(declared.name, declared) for declared in fields(owner)]


def docstring(own: str, parameters: Mapping[str, Field[Any]]) -> str:
    """A class's own docstring, and below it what each parameter means: what `help` shows."""
    lines = [inspect.cleandoc(own), "", "Parameters:"]
    for found in (_described(name, declared) for name, declared in parameters.items()):
        symbol = f" ({found.symbol})" if found.symbol else ""
        lines.append(f"    {found.name}{symbol}: {found.about} {_sentence(found)}".rstrip())
    return "\n".join(lines) + "\n"


def check(owner: Any) -> None:
    """Refuse a parameter outside its range, with a message that names it and the range."""
    for declared in fields(owner):
        rule, value = declared.metadata.get("allowed"), getattr(owner, declared.name)
        problem = rule.problem(value) if rule else None
        if problem:
            default = "" if declared.default is MISSING else f"; the default is {declared.default!r}"
            shown = arguments.shown(value)
            raise TrimtabError(f"{type(owner).__name__}: {declared.name} {problem}, not {shown}{default}.")


def _described(name: str, declared: Field[Any]) -> Described:
    return Described(
        name=name,
        default="" if declared.default is MISSING else repr(declared.default),
        allowed=str(declared.metadata.get("allowed", "as documented")),
        about=declared.metadata.get("about", ""),
        symbol=declared.metadata.get("symbol", ""),
    )


def _sentence(found: Described) -> str:
    default = f"; default {found.default}" if found.default else ""
    return f"[{found.allowed}{default}]"
