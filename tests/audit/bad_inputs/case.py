"""One bad input, as the files in `cases/` describe it."""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.audit.bad_inputs.places import ODD_NAME, unwritable

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """What is typed, and what must come of it."""

    verb: str  # the file that it stands in
    run: str  # as typed in a shell, after `trimtab`; {unwritable} and {odd} stand for what a file cannot hold
    says: str  # a regular expression for the sentence: on standard error, or anywhere if the code is 0 or 1
    code: int = 2
    stdin: str = ""  # what comes from standard input; "closed" if there is none
    stdout: str = "kept"  # or "closed", "full" (as /dev/full), "unread" (a reader that has stopped reading)
    stderr: str = "kept"  # or "closed", "full"
    disk: str = "roomy"  # or "full": no file can grow
    environment: Mapping[str, str] = field(default_factory=dict)
    leaves: tuple[str, ...] = ()  # what it may write: names or patterns, relative to the working folder
    slow: bool = False  # left to `make audit`
    owner: str = ""  # not fixed yet, and whose it is

    @property
    def arguments(self) -> list[str]:
        """What follows `trimtab`, word by word."""
        filled = [word.replace("{unwritable}", str(unwritable())) for word in shlex.split(self.run)]
        return [word.replace("{odd}", ODD_NAME) for word in filled]

    @property
    def needs_process(self) -> bool:
        """Whether only a process of its own has what it is about: standard streams, a terminal, a pipe to hang on."""
        streams = self.stdin == "closed" or {self.stdout, self.stderr} != {"kept"}
        return streams or bool(self.environment) or "pipe" in self.arguments

    def __str__(self) -> str:
        facts = [
            f"{name}={getattr(self, name)}" for name in ("stdin", "stdout", "stderr", "disk") if self._is_set(name)
        ]
        facts += [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([self.run, *facts]).replace("\n", "\\n")

    def _is_set(self, name: str) -> bool:
        return getattr(self, name) != type(self).__dataclass_fields__[name].default


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, verb by verb."""
    entries = [
        (file.stem, entry)
        for file in sorted(FOLDER.glob("*.toml"))
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["cases"]
    ]
    return tuple(Case(verb=verb, **{**entry, "leaves": tuple(entry.get("leaves", ()))}) for verb, entry in entries)
