"""The lines of `trimtab classify`: a table for people, CSV or JSONL for programs; each flushed as it comes."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trimtab.errors import TrimtabError
from trimtab.files import write_whole

if TYPE_CHECKING:
    from trimtab.classifier import Guess

FORMATS = ("table", "csv", "jsonl")
ODD_NAMES = "surrogateescape"  # file names need not be UTF-8; they come out as they went in


class Lines:
    """Writes one line per image; `already_there` are the paths that an earlier run has written."""

    def __init__(self, file: IO[str], line: "Callable[[str, list[Guess]], str]", already_there: frozenset[str]) -> None:
        self._file, self._line = file, line
        self.already_there = already_there
        self.written = 0

    def write(self, path: str, guesses: "list[Guess]") -> None:
        """The line of one image."""
        try:
            self._file.write(self._line(path, guesses) + "\n")
            self._file.flush()
        except BrokenPipeError:  # whoever read our lines has seen enough
            raise
        except OSError as error:
            raise TrimtabError(f"{self._file.name} cannot be written: {error.strerror or error}.") from None
        self.written += 1


@contextmanager
def open_lines(format: str, out: Path | None, top: int, label_width: int, resuming: bool) -> Iterator[Lines]:
    """Lines to the file `out`, or to standard output.

    A file that exists is only ever added to, and only when `resuming`; else it is refused.
    """
    if format not in FORMATS:
        raise TrimtabError(f"There is no format {format!r}; the choices are {', '.join(FORMATS)}.")
    make_line = {"table": _table_line(label_width), "csv": _csv_line, "jsonl": _json_line}[format]
    header = _csv_row(_csv_header(top)) + "\n" if format == "csv" else ""
    if out is None:
        keep_odd_names(sys.stdout)
        sys.stdout.write(header)
        yield Lines(sys.stdout, make_line, frozenset())
        return
    out = out.expanduser()
    before = _lines_before(out, format, header, resuming) if out.exists() else None
    try:
        file = out.open("a", encoding="utf-8", errors=ODD_NAMES, newline="")
    except OSError as error:
        raise TrimtabError(f"{out} cannot be written: {error.strerror or error}.") from None
    lines = Lines(file, make_line, before or frozenset())
    with file:
        try:
            if before is None:
                file.write(header)
            yield lines
        except BaseException:
            if before is None and not lines.written:
                out.unlink()  # an empty file would only stand in the way of the next try
            raise


def keep_odd_names(stream: IO[str]) -> None:
    """Let file names that are not UTF-8 pass through standard input or output."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=ODD_NAMES)


def _lines_before(out: Path, format: str, header: str, resuming: bool) -> frozenset[str]:
    """The paths that are already in the file; a last line that a kill has torn is cut off."""
    if not resuming:
        raise TrimtabError(
            f"{out} exists; choose another file. (An interrupted run continues if its --state file is given, too.)"
        )
    if format == "table":
        raise TrimtabError(f"{out} exists; a table cannot be continued, use --format csv or jsonl.")
    try:
        text = out.read_bytes().decode("utf-8", ODD_NAMES)
        whole = text[: text.rfind("\n") + 1]
        if format == "csv":
            if not whole.startswith(header):
                raise ValueError
            found = frozenset(row[0] for row in list(csv.reader(io.StringIO(whole, newline="")))[1:])
        else:
            found = frozenset(json.loads(line)["path"] for line in whole.split("\n")[:-1])
        if whole != text:
            write_whole(out, whole.encode("utf-8", ODD_NAMES))
    except OSError as error:
        raise TrimtabError(f"{out} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, IndexError):
        raise TrimtabError(f"{out} exists and is not {format} written by this command; choose another file.") from None
    return found


def _table_line(label_width: int) -> "Callable[[str, list[Guess]], str]":
    def line(path: str, guesses: "list[Guess]") -> str:
        cells = [f"{guess['label']:<{label_width}} {guess['score']:7.2%}" for guess in guesses]
        return "  ".join([*cells, path])

    return line


def _csv_header(top: int) -> list[str]:
    more = [f"{column}_{rank}" for rank in range(2, top + 1) for column in ("label", "score")]
    return ["path", "label", "score", *more]


def _csv_line(path: str, guesses: "list[Guess]") -> str:
    return _csv_row([path, *(cell for guess in guesses for cell in (guess["label"], f"{guess['score']:.6f}"))])


def _csv_row(cells: Sequence[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(cells)
    return row.getvalue()


def _json_line(path: str, guesses: "list[Guess]") -> str:
    found: dict[str, Any] = {"path": path, "predictions": guesses}
    return json.dumps(found, ensure_ascii=False)
