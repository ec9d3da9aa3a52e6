"""Getting one large file from the web."""

import urllib.request
from pathlib import Path

SILENCE_SECONDS = 20  # how long a server may say nothing


def download(address: str, file: Path, what: str) -> None:
    """Write what is at `address` to `file`, with a progress bar on a terminal; OSError says what went wrong."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with (
        urllib.request.urlopen(address, timeout=SILENCE_SECONDS) as answer,
        file.open("wb") as target,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        length = answer.headers.get("Content-Length")
        task = progress.add_task(what, total=int(length) if length else None)
        while piece := answer.read(1 << 20):
            target.write(piece)
            progress.advance(task, len(piece))
    if length and file.stat().st_size != int(length):
        raise OSError(f"the connection broke off after {file.stat().st_size} of {length} bytes")
