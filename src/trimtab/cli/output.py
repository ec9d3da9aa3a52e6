"""Where a verb's results go: JSON or tables on standard output, and a folder for files."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 160  # a file or a pipe has no width of its own


def show_json(content: Any) -> None:
    """One JSON document, in ASCII, so that every terminal and every pipe can carry it."""
    from trimtab.study.as_json import without_nan

    sys.stdout.write(json.dumps(without_nan(content), indent=1, allow_nan=False, default=str) + "\n")


def folder_for(out: Path, what: str) -> None:
    """Refuse a file where a folder is meant, before any work is done for it."""
    place = out.expanduser()
    if os.path.lexists(place) and not place.is_dir():
        is_what = "is a file" if place.is_file() else "is not a folder"
        raise TrimtabError(f"{out} {is_what}; give a folder for {what} with -o.")


def table_console() -> "Console":
    """Where tables are shown: as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
