"""Runs a case where its files are, and says what is wrong with what came of it."""

import fnmatch
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from click.testing import CliRunner

import trimtab
from tests.audit import command
from tests.audit.bad_inputs.case import Case
from tests.audit.bad_inputs.places import build

SECONDS = 120  # without an end by then, it hangs, even on a busy machine
MOST_LINES = 3  # of a complaint; a usage error has three: the usage, where help is, the error
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Outcome:
    """What a command has done."""

    code: int
    stdout: str
    stderr: str
    left: tuple[str, ...] = ()

    def faults(self, case: Case) -> dict[str, str]:
        """Kind of fault -> what is wrong; empty if all is well."""
        found = {}
        complaint = self.stderr if case.code == 2 else self.stdout + self.stderr
        if "Traceback" in self.stderr or "Exception ignored" in self.stderr:
            found["traceback"] = self.stderr.strip().splitlines()[-1]
        if self.code != case.code:
            found["code"] = f"exit code {self.code}, not {case.code}"
        if not re.search(case.says, complaint):
            found["sentence"] = f"says {complaint[-500:]!r}, not {case.says!r}"
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        if case.code == 2 and len(lines) > MOST_LINES:
            found.setdefault("sentence", f"{len(lines)} lines on standard error")
        stray = [name for name in self.left if not any(fnmatch.fnmatch(name, pattern) for pattern in case.leaves)]
        if stray:
            found["leftovers"] = ", ".join(stray[:5])
        return found


class Places:
    """The files of all cases: built once, put back whenever a case has changed them."""

    def __init__(self, root: Path) -> None:
        self._pristine, self.work, self.cache = root / "pristine", root / "work", root / "cache"
        build(self._pristine)
        self._put_back()

    def run(self, case: Case) -> Outcome:
        """The outcome of a case, with the names of the files that it made, changed or removed."""
        outcome = _in_process(case, self) if case.needs_process else _here(case, self)
        after = _seen(self.work)
        names = sorted(self._before.keys() | after.keys())
        left = tuple(name for name in names if self._before.get(name) != after.get(name))
        if left:
            self._put_back()
        return Outcome(outcome.code, outcome.stdout, outcome.stderr, left)

    def _put_back(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        # A pipe cannot be copied by reading it.
        shutil.copytree(self._pristine, self.work, symlinks=True, ignore=lambda _, names: {"pipe"} & set(names))
        os.mkfifo(self.work / "pipe")
        self._before = _seen(self.work)


def _seen(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every name below a folder with what would tell that it changed; a folder is only there or not."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        content = (0, 0) if stat.S_ISDIR(facts.st_mode) else (facts.st_size, facts.st_mtime_ns)
        found[str(path.relative_to(folder))] = (facts.st_mode, *content)
    return found


def _environment(case: Case, places: Places) -> dict[str, str]:
    sources = os.pathsep.join([str(Path(trimtab.__file__).parents[1]), str(ROOT)])
    ours = {"TRIMTAB_CACHE": str(places.cache), "PYTHONPATH": sources, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return {**ours, "HF_HUB_OFFLINE": "1", **case.environment}


def _here(case: Case, places: Places) -> Outcome:
    """In this process: the same `run` that the command calls, a hundred times faster than starting Python."""
    before, arguments = Path.cwd(), sys.argv
    runner = CliRunner()
    os.chdir(places.work)
    sys.argv = ["trimtab", *case.arguments]
    try:
        with runner.isolation(input=case.stdin, env=_environment(case, places)) as (out, err, _), _full_disk(case):
            code = _exit_code()
            sys.stdout.flush()
            sys.stderr.flush()
            return Outcome(code, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace"))
    finally:
        os.chdir(before)
        sys.argv = arguments


def _exit_code() -> int:
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        command.run()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()  # as Python does when nobody has caught it
        return 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return 0


def _too_long(*_: object) -> None:
    raise RuntimeError(f"it hangs: no end after {SECONDS} s")


@contextmanager
def _full_disk(case: Case) -> Iterator[None]:
    """No file can grow: what a full disk does to a program, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if case.disk == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _in_process(case: Case, places: Places) -> Outcome:
    """In a process of its own, with the standard streams that the case asks for."""
    line = [sys.executable, "-m", "tests.audit.command", *case.arguments]
    redirections = "".join(
        f" {number}>&-" for number, name in ((1, "stdout"), (2, "stderr")) if getattr(case, name) == "closed"
    )
    redirections += " <&-" if case.stdin == "closed" else ""
    options: dict[str, Any] = {"cwd": places.work, "env": {**os.environ, **_environment(case, places)}}
    shell = ["/bin/sh", "-c", f'exec "$@"{redirections}', "sh", *line]
    with _stream(case.stdout) as out, _stream(case.stderr) as err, _full_disk(case):
        given = {} if case.stdin == "closed" else {"input": os.fsencode(case.stdin)}
        try:
            done = subprocess.run(shell, stdout=out, stderr=err, timeout=SECONDS, check=False, **given, **options)
        except subprocess.TimeoutExpired:
            return Outcome(-1, "", f"Traceback: it hangs, no end after {SECONDS} s")
    texts = [(text or b"").decode(errors="replace") for text in (done.stdout, done.stderr)]
    return Outcome(done.returncode, *texts)


@contextmanager
def _stream(kind: str) -> Iterator[int | IO[bytes]]:
    if kind == "full":
        with Path("/dev/full").open("wb") as file:
            yield file
    elif kind == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as file:
            yield file
    else:
        yield subprocess.PIPE
