"""How far a long verb has come: a bar on a terminal, and elsewhere a line now and then for the log of a job.

    with progress("bench", 90, "runs") as tell:
        for number, run in enumerate(runs, 1):
            ...
            tell(number, str(run))

Both go to standard error, so that standard output stays data.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

EVERY_SECONDS = 30.0  # without a terminal, at most one line in this time


class Tell(Protocol):
    """What `progress` gives."""

    def __call__(self, now: int, what: str = "") -> None:
        """So many are done, and this was the last."""


class TellBoth(Protocol):
    """What `progress_of` gives."""

    def __call__(self, now: int, total: int, what: str = "") -> None:
        """So many of so many are done, and this was the last."""


@contextmanager
def progress(verb: str, total: int, unit: str, *, done: int = 0) -> Iterator[Tell]:
    """A function to be told how many of `total` are done; `done` were there before this command began."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(verb, total, unit, done)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as shown:
        bar = shown.add_task(verb, total=total, completed=done)

        def tell(now: int, what: str = "") -> None:
            shown.update(bar, completed=now, description=what or verb)

        yield tell


@contextmanager
def progress_of(verb: str, unit: str) -> Iterator[TellBoth]:
    """The same for work that finds out its total: a function to be told how many of how many are done."""
    with ExitStack() as stack:
        tell: Tell | None = None

        def tell_both(now: int, total: int, what: str = "") -> None:
            nonlocal tell
            if tell is None:
                tell = stack.enter_context(progress(verb, total, unit, done=now))
            tell(now, what)

        yield tell_both


class _Lines:
    """Lines such as "bench: 12 of 90 runs, 3 min left", at most one in EVERY_SECONDS."""

    def __init__(self, verb: str, total: int, unit: str, done: int) -> None:
        self._verb, self._total, self._unit, self._before = verb, total, unit, done
        self._start = self._told = time.monotonic()

    def __call__(self, now: int, what: str = "") -> None:  # noqa: ARG002  (only a bar has room for it)
        moment = time.monotonic()
        if moment - self._told < EVERY_SECONDS:
            return
        self._told = moment
        made = now - self._before
        left = f", {_duration((moment - self._start) / made * (self._total - now))} left" if made > 0 else ""
        print(f"{self._verb}: {now:,} of {self._total:,} {self._unit}{left}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
