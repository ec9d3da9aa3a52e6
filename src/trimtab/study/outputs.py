"""Files that a study hands over: marked as trimtab's, so that a file of somebody else's is never replaced by accident.

One rule for figures, pages and tables: a file that carries the mark may be written again, any other is refused unless
the user asks for it to be replaced.
"""

from pathlib import Path

import trimtab
from trimtab.errors import TrimtabError
from trimtab.files import refuse_special, write_whole

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


def write_output(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a marked file and the folders above it, or say in one sentence why not."""
    refuse_foreign(path, overwrite=overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> TrimtabError:
    return TrimtabError(f"{path} cannot be written: {error.strerror or error}; choose another place.")


def _ends(path: Path) -> bytes:
    with path.open("rb") as file:
        beginning = file.read(EDGE)
        file.seek(max(file.tell(), path.stat().st_size - EDGE))
        return beginning + file.read()
