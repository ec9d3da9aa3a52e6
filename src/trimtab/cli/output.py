"""Where a verb's results go: JSON or tables on standard output, and a folder for files."""

import json
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
    if out.expanduser().is_file():
        raise TrimtabError(f"{out} is a file; give a folder for {what} with -o.")


def table_console() -> "Console":
    """Where tables are shown: as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
