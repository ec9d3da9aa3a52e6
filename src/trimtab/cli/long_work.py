"""A bar for work that takes long, on standard error, only where somebody looks at it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Gives a function that moves the bar: (done, in all, a few words)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def move(done: int, total: int, words: str = "") -> None:
            progress.update(task, completed=done, total=total, description=f"{what} {words}".rstrip())

        yield move
