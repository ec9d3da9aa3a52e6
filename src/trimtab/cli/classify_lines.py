"""Where the lines of `trimtab classify` go: standard output, or a file that survives a kill at any point.

With --state and -o, saving the state is what makes lines final: the state carries a note of how much of the file it
covers. An image is learned, its line written, and some time later the state saved; so after a kill the file may hold
lines that the state does not know. The next run learns from their images again, in their order, and writes no line
twice. Everything ends as if there had been no kill.
"""

import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trimtab.cli.classify_formats import ODD_NAMES, LineFormat
from trimtab.errors import TrimtabError
from trimtab.files import say, write_whole

if TYPE_CHECKING:
    from trimtab.classifier import Guess


class PrintedLines:
    """Lines on standard output: CSV and JSONL in UTF-8, a table as the terminal has it."""

    lost_one = False  # nothing is ever continued from standard output, so no line is owed to anyone

    def __init__(self, format: LineFormat) -> None:
        self._format = format
        self._encoding = "utf-8" if format.for_programs else sys.stdout.encoding or "utf-8"
        self.unlearned: list[tuple[str, bytes]] = []
        self.written = 0

    def begin(self, _: dict[str, Any]) -> None:
        """Print the header."""
        self._put(self._format.header)

    def has(self, _: str) -> bool:
        """Never: what was printed is gone."""
        return False

    def write(self, path: str, guesses: "list[Guess]") -> None:
        """Print the line of one image, at once."""
        self._put(self._format.line(path, guesses))
        self.written += 1

    def pass_over(self, line: bytes) -> None:
        """There is nothing to pass over."""

    def covered(self) -> dict[str, Any] | None:
        """Nothing that a state should note."""
        return None

    def close(self, *, failed: bool) -> None:
        """Standard output stays open."""

    def _put(self, text: str) -> None:
        try:
            content = text.encode(self._encoding, ODD_NAMES)
        except UnicodeEncodeError:  # a terminal that lacks letters
            content = text.encode(self._encoding, "backslashreplace")
        try:
            _to_standard_output(content)
        except BrokenPipeError:  # whoever read our lines has seen enough
            raise
        except OSError as error:
            _drop_what_waits(sys.stdout)
            raise TrimtabError(f"Standard output cannot be written: {error.strerror or error}.") from None


def _to_standard_output(content: bytes) -> None:
    """Bytes as they are; a replacement of standard output that takes text alone gets text."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content.decode(errors="replace"))
    sys.stdout.flush()


class FiledLines:
    """Lines in a file. One that exists is only ever added to, and only if there is a `state` to continue from.

    `unlearned` are the lines that the state does not cover: each is to be learned from and passed over, before the
    first new line. `lost_one` says that an image was learned whose line could not be written.
    """

    def __init__(self, out: Path, format: LineFormat, state: Path | None) -> None:
        self._out, self._format = out, format
        self._real = Path(os.path.realpath(out.expanduser()))  # a link stays, and what it leads to is written
        self._lines = self._lines_before(state)
        self._there = Counter(path for path, _ in self._lines)
        self._file: io.FileIO | None = None
        self._digest, self._end = hashlib.sha256(), 0
        self.unlearned: list[tuple[str, bytes]] = []
        self.written = 0
        self.lost_one = False

    def begin(self, note: dict[str, Any]) -> None:
        """Create the file with its header, or cut off a torn last line; `note` is what a state says about the file."""
        header = _encoded(self._format.header)
        whole = len(header) + sum(len(line) for _, line in self._lines)
        try:
            if self._lines:
                os.truncate(self._real, whole)
            else:
                write_whole(self._real, header)  # whole or not at all
            self._file = self._real.open("ab", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from None
        self.pass_over(header)
        known = 0
        while not self._is_covered_by(note) and known < len(self._lines):
            self.pass_over(self._lines[known][1])
            known += 1
        self.unlearned = self._lines[known:]
        if self._lines and self._is_about(note) and not self._is_covered_by(note):
            say(f"{self._out} was changed since the state was saved; its lines are kept as they are.")

    def has(self, path: str) -> bool:
        """Whether an image has its line already; one that is given twice has two."""
        self._there[path] -= 1
        return self._there[path] >= 0

    def write(self, path: str, guesses: "list[Guess]") -> None:
        """Write the line of one image, at once and whole."""
        assert self._file is not None
        line = _encoded(self._format.line(path, guesses))
        try:
            rest = memoryview(line)
            while rest:  # a disk that is almost full takes a part
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.lost_one = True
            with suppress(OSError):  # else the next run cuts it off
                self._file.truncate(self._end)
            raise self._unwritable(error) from None
        self.pass_over(line)
        self.written += 1

    def pass_over(self, line: bytes) -> None:
        """Count a line that is there."""
        self._digest.update(line)
        self._end += len(line)

    def covered(self) -> dict[str, Any]:
        """The note for a state that has learned from all images so far; their lines are on the disk, not on the way."""
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None
        return {"lines_in": str(self._real), "bytes": self._end, "sha256": self._digest.hexdigest()}

    def close(self, *, failed: bool) -> None:
        """End; a run that failed before its first line leaves no file."""
        if self._file is not None:
            self._file.close()
            if failed and not self._lines and not self.written:
                self._real.unlink(missing_ok=True)

    def _is_about(self, note: dict[str, Any]) -> bool:
        return bool(note.get("lines_in") == str(self._real))

    def _is_covered_by(self, note: dict[str, Any]) -> bool:
        """Whether the note was made exactly here: for this file, at this length, with this content."""
        reached = self._is_about(note) and note.get("bytes") == self._end
        return reached and note.get("sha256") == self._digest.hexdigest()

    def _lines_before(self, state: Path | None) -> list[tuple[str, bytes]]:
        """(path, line) of what earlier runs have written."""
        if not self._real.exists():
            return []
        try:
            text = self._real.read_bytes().decode("utf-8", ODD_NAMES)
        except OSError as error:
            raise TrimtabError(f"{self._out} cannot be read: {error.strerror or error}.") from None
        header = self._format.header
        if header.startswith(text):  # begun, and ended before the first line: nothing to lose
            return []
        if state is None:
            raise TrimtabError(
                f"{self._out} exists; choose another file. (A run that was stopped continues if it was started with "
                "--state, and is again.)"
            )
        try:
            if not text.startswith(header):
                raise ValueError
            found = [(path, _encoded(line)) for path, line in self._format.read(text.removeprefix(header))]
        except (ValueError, RecursionError):
            raise TrimtabError(
                f"{self._out} exists and is not {self._format.name} written by this command; choose another file."
            ) from None
        if found and not state.expanduser().exists():
            raise TrimtabError(
                f"{self._out} exists, but {state} does not, which would hold what was learned from it; "
                "choose another file."
            )
        return found

    def _unwritable(self, error: OSError) -> TrimtabError:
        return TrimtabError(f"{self._out} cannot be written: {error.strerror or error}.")


def given_names() -> Iterator[str]:
    """The lines of standard input as they come; file names that are not UTF-8 pass.

    They are read through a second handle: a thread that waits in Python's own when the program ends would abort it.
    """
    try:
        handle = os.dup(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):  # a replacement that holds its text in memory, or a closed one
        yield from sys.stdin
        return
    with open(handle, encoding=sys.stdin.encoding, errors=ODD_NAMES) as names:  # noqa: PTH123  (a handle, no path)
        yield from names


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", ODD_NAMES)


def _drop_what_waits(stream: IO[str]) -> None:
    """Point a stream that cannot be written at nothing, else Python complains once more when it ends."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
