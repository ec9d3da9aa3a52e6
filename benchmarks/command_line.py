"""How a study is started: its words are read here, and what is wrong with them is said as `trimtab` itself says it.

A study hands its function and its arguments to `run_study`. What its user can put right, at once or in the middle of
the work, ends with one sentence on standard error and exit code 2; `-h` shows the study's own text.
"""

import argparse
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from trimtab import arguments
from trimtab.cli.complaints import WRONG_USE, complain, sentence_of
from trimtab.errors import TrimtabError
from trimtab.registry import method_class


class Argument(NamedTuple):
    """A word of the command line, or several."""

    name: str
    read: Callable[[str], Any]  # makes of a word what the study takes, or refuses it
    default: str | None = None  # where the word may be left out
    many: str | None = None  # "*" for any number of words, "+" for at least one

    def taken(self, given: Any) -> Any:
        """What the study takes."""
        return [self.read(word) for word in given] if isinstance(given, list) else self.read(given)


def run_study(study: Callable[..., None], about: str | None, *wanted: Argument) -> None:
    """Call the study with what the command line gives for each argument, in their order."""
    spec = sys.modules["__main__"].__spec__
    program = f"python -m {spec.name.removesuffix('.__main__') if spec else study.__module__}"
    parser = _Parser(prog=program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for each in wanted:
        parser.add_argument(each.name, nargs="?" if each.default else each.many, default=each.default)
    try:
        given = vars(parser.parse_args())
        study(*(each.taken(given[each.name]) for each in wanted))
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        complain(sentence, program)
        sys.exit(WRONG_USE)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Too few words, or too many: one sentence, too."""
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ").replace(" [-h]", "")
        raise TrimtabError(f"{message[0].upper()}{message[1:]}; the form is: {usage}")


def place(name: str) -> Argument:
    """A file or a folder; whoever reads it says what is wrong with it."""
    return Argument(name, Path)


def whole(name: str, default: str | None = None) -> Argument:
    """A whole number of at least 1."""
    return Argument(name, partial(_whole, name), default)


def wholes(name: str) -> Argument:
    """Such numbers, with commas between."""
    return Argument(name, lambda word: [_whole(name, each) for each in word.split(",")])


def words(name: str, known: Collection[str]) -> Argument:
    """Some of a few words, with commas between."""
    return Argument(name, lambda word: [arguments.word(name, each, known) for each in word.split(",")])


def method_name(default: str | None = None) -> Argument:
    """The name of a method."""
    return Argument("METHOD", _method, default)


def _whole(name: str, word: str) -> int:
    return arguments.whole(name, int(word) if word.removeprefix("-").isdecimal() else word, least=1)


def _method(name: str) -> str:
    method_class(name)
    return name


FOLDER = place("FOLDER")
METHODS = Argument("METHODS", lambda word: [_method(name) for name in word.split(",")])
STORES = Argument("STORE", str, many="*")
