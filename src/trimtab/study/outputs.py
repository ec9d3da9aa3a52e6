"""Files that a study hands over: marked as trimtab's, so that a file of somebody else's is never replaced by accident.

One rule for figures, pages and tables: a file that carries the mark may be written again, any other is refused unless
the user asks for it to be replaced.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import trimtab
from trimtab.errors import TrimtabError
from trimtab.files import FileLock, refuse_special, write_together
from trimtab.interrupts import HoldInterrupts

MARK = "Made by trimtab"
EDGE = 1 << 16  # bytes at either end of a file: the mark is at the beginning, or in a PDF near the end


def made_by() -> str:
    """The mark that every file carries: in a comment, or where its format names the program that made it."""
    return f"{MARK} {trimtab.__version__}"


def refuse_foreign(path: Path, *, overwrite: bool = False) -> None:
    """Raise if something is at `path` that trimtab has not written; `overwrite` allows every file, and only files."""
    try:
        refuse_special(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        foreign = not overwrite and path.exists() and MARK.encode() not in _ends(path)
    except OSError as error:
        raise TrimtabError(f"{path} cannot be read: {error.strerror or error}.") from error
    if foreign:
        raise TrimtabError(
            f"{path} exists and was not written by trimtab; choose another name, or replace it with --overwrite."
        )


@contextmanager
def reserved(path: Path, *, overwrite: bool = False) -> Iterator[None]:
    """Hold a file of an existing folder from before the work until it is written; refuse what cannot be written."""
    lock = FileLock(path)
    try:
        refuse_foreign(path, overwrite=overwrite)
        yield
    finally:
        lock.release(remove=True)


def write_outputs(contents: Mapping[Path, bytes], *, overwrite: bool = False) -> None:
    """Write marked files of one folder, and the folders above it, or say in one sentence why not.

    They show the same study: after an interrupt all of them are old or all new, and no kill leaves both kinds.
    """
    for path in contents:
        refuse_foreign(path, overwrite=overwrite)
    first = next(iter(contents))
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        with HoldInterrupts():
            write_together(contents)
    except OSError as error:
        which = Path(error.filename or "")
        raise _unwritable(which if which in contents else first, error) from error


def _unwritable(path: Path, error: OSError) -> TrimtabError:
    return TrimtabError(f"{path} cannot be written: {error.strerror or error}; choose another place.")


def _ends(path: Path) -> bytes:
    with path.open("rb") as file:
        beginning = file.read(EDGE)
        file.seek(max(file.tell(), path.stat().st_size - EDGE))
        return beginning + file.read()
