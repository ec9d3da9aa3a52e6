"""The formats of `trimtab classify`: a table for people, CSV or JSONL for programs; each can be read back.

Lines are bytes: UTF-8, except that a file name which is not UTF-8 comes out as it went in.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.classifier import Guess

FORMATS = ("table", "csv", "jsonl")
ODD_NAMES = "surrogateescape"


class LineFormat(Protocol):
    """How a line is written, and found again."""

    name: str
    header: str
    for_programs: bool

    def line(self, path: str, guesses: "list[Guess]") -> str:
        """The line of one image, with its line break."""

    def read(self, text: str) -> Iterator[tuple[str, str]]:
        """(path, line) of every line below the header; a torn last one is left out, a foreign one is a ValueError."""


def line_format(name: str, top: int, label_width: int) -> LineFormat:
    """The format of that name, for `top` labels per line."""
    if name not in FORMATS:
        raise TrimtabError(f"There is no format {name!r}; the choices are {', '.join(FORMATS)}.")
    formats: dict[str, LineFormat] = {"table": _Table(top, label_width), "csv": _Csv(top), "jsonl": _Jsonl()}
    return formats[name]


class _Table:
    name, header, for_programs = "a table", "", False

    def __init__(self, top: int, label_width: int) -> None:
        self._label_width = label_width
        self._path_begins = len(self.line("", [{"label": "", "score": 0.0}] * top)) - 1

    def line(self, path: str, guesses: "list[Guess]") -> str:
        cells = [f"{guess['label']:<{self._label_width}} {guess['score']:7.2%}" for guess in guesses]
        return "  ".join([*cells, path]) + "\n"

    def read(self, text: str) -> Iterator[tuple[str, str]]:
        for line in _whole_lines(text):
            if line[self._path_begins - 3 : self._path_begins] != "%  ":
                raise ValueError(line)
            yield line[self._path_begins : -1], line


class _Csv:
    name, for_programs = "CSV", True

    def __init__(self, top: int) -> None:
        more = [f"{column}_{rank}" for rank in range(2, top + 1) for column in ("label", "score")]
        self._columns = ["path", "label", "score", *more]
        self.header = _csv_row(self._columns)

    def line(self, path: str, guesses: "list[Guess]") -> str:
        return _csv_row([path, *(cell for guess in guesses for cell in (guess["label"], f"{guess['score']:.6f}"))])

    def read(self, text: str) -> Iterator[tuple[str, str]]:
        taken: list[str] = []  # of the row at hand: a path in quotes may hold a line break

        def feed() -> Iterator[str]:
            for line in _whole_lines(text):
                taken.append(line)
                yield line

        rows = csv.reader(feed(), strict=True)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    return  # torn within a path
                raise ValueError(str(error)) from None
            if row is None:
                return
            if len(row) != len(self._columns):
                raise ValueError(row)
            yield row[0], "".join(taken)
            taken.clear()


class _Jsonl:
    name, header, for_programs = "JSONL", "", True

    def line(self, path: str, guesses: "list[Guess]") -> str:
        return json.dumps({"path": path, "predictions": guesses}, ensure_ascii=False) + "\n"

    def read(self, text: str) -> Iterator[tuple[str, str]]:
        for line in _whole_lines(text):
            found = json.loads(line)
            if not (isinstance(found, dict) and isinstance(found.get("path"), str) and "predictions" in found):
                raise ValueError(line)
            yield found["path"], line


def _whole_lines(text: str) -> Iterator[str]:
    """Lines that end with a line feed; other signs that break lines may stand in file names."""
    return (f"{line}\n" for line in text.split("\n")[:-1])


def _csv_row(cells: Sequence[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="\r\n").writerow(cells)  # whatever the terminator holds is quoted inside cells
    return row.getvalue().removesuffix("\r\n") + "\n"
