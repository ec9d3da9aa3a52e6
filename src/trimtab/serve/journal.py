"""Journal: every change of a stream, in order, on the disk before anybody is told of it.

Files that are only ever added to (segments), each named by the number of its first entry. A segment begins with a
header (format, version, that number) and continues in frames. A frame holds the entries of one group commit:

    mark | bytes that follow the header | checksum | number of the first entry | entries      all little-endian
    then, for each entry: its length, and its bytes

One checksum covers the whole frame, so a group is there wholly or not at all. A frame is written only after the one
before it is on the disk (but with `fsync="never"`), hence a bad frame that no whole one follows is what a kill or a
power cut has left, and is cut off; a bad frame with whole ones behind it is damage, and is refused.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.serve.refusals import Damaged

REPAIR = "repair the stream (python -m trimtab.serve.repair)"

VERSION = 1
MAGIC = b"trimtab journal\n"
MARK = b"\xf1GRP"
HEADER = struct.Struct("<16sIQI")  # magic, version, number of the first entry, checksum of these
FRAME = struct.Struct("<4sIIQI")  # mark, bytes that follow, checksum of all else, number of the first entry, entries
LENGTH = struct.Struct("<I")
SEGMENT_BYTES = 64 << 20  # a segment that has grown beyond this is followed by a new one
ENDING = ".journal"
_sync = getattr(os, "fdatasync", os.fsync)


class Journal:
    """The journal in a folder, to be read once by `replay` and then written by one writer."""

    def __init__(self, folder: Path, fsync: str = "group") -> None:
        self.folder, self._policy = folder, fsync
        self.next = 0  # the number of the entry to come
        self.cut = 0  # bytes of an unfinished group that were cut off by `replay`
        self._file: int | None = None
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of the segment that is being written."""
        return self._size

    def replay(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Every entry from number `start` on; afterwards the journal can be added to."""
        segments = self._segments()
        expected: int | None = None
        for place, (first, path) in enumerate(segments):
            following = segments[place + 1][0] if place + 1 < len(segments) else None
            if following is not None and following <= start:
                continue  # all of it is older
            if first > (start if expected is None else expected):
                raise Damaged(
                    f"The journal in {self.folder} lacks entries {start if expected is None else expected} to "
                    f"{first - 1}; put the missing files back, or {REPAIR}, which sets the rest aside."
                )
            expected = first
            for number, entry in self._entries(path, first, following):
                expected = number + 1
                if number >= start:
                    yield number, entry
        self.next = max(start, expected or 0)
        if segments and expected == self.next and _version(segments[-1][1]) == VERSION:
            self._continue(segments[-1][1])

    def kept(self) -> Iterator[bytes]:
        """Every entry that is still on the disk, the newest first."""
        for first, path in reversed(self._segments()):
            with suppress(FileNotFoundError):  # a checkpoint has just made it superfluous
                yield from (entry for _, entry in reversed(whole_part(path.read_bytes(), first)[0]))

    def append(self, entries: Sequence[bytes]) -> None:
        """Add entries, all or none, and wait until the disk has them as the policy says; OSError if it cannot."""
        if self._file is None or self._size >= SEGMENT_BYTES:
            self.roll()
        assert self._file is not None
        groups = [[entry] for entry in entries] if self._policy == "always" else [entries]
        before, number = self._size, self.next
        try:
            for group in groups:
                self._write(_frame(group, number))
                number += len(group)
                if self._policy != "never":
                    _sync(self._file)
        except BaseException:
            self._take_back(before)
            raise
        self.next = number

    def roll(self) -> None:
        """Begin a new segment; one that holds nothing serves again."""
        if self._file is not None and self._size == HEADER.size:
            return
        self.close()
        path = self.folder / f"{self.next:020d}{ENDING}"
        self._file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600
        )
        self._size = 0
        try:
            self._write(_header(self.next))
            if self._policy != "never":
                _sync(self._file)
                sync_folder(self.folder)
        except BaseException:
            self.close()
            with suppress(OSError):
                path.unlink()
            raise

    def drop_before(self, number: int) -> None:
        """Remove the segments that hold only entries before a number."""
        segments = self._segments()
        for (_, path), (following, _) in pairwise(segments):
            if following <= number:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file. Closing twice does nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _segments(self) -> list[tuple[int, Path]]:
        found = []
        for path in self.folder.glob(f"*{ENDING}"):
            if not path.stem.isdecimal():
                raise Damaged(f"{path} has no name that a journal's file can have; move it elsewhere.")
            found.append((int(path.stem), path))
        return sorted(found)

    def _entries(self, path: Path, first: int, following: int | None) -> Iterator[tuple[int, bytes]]:
        """The entries of a segment, of which `following` begins the next; an unfinished group at its end is cut off."""
        content = path.read_bytes()
        if following is None and len(content) < HEADER.size:  # killed while it was begun
            self.cut += len(content)
            path.unlink()
            return
        _check_header(path, content, first)
        entries, end = whole_part(content, first)
        if following is not None:  # a group that could not be taken back was written again, into the next segment
            entries = entries[: following - first]
        yield from entries
        number = first + len(entries)
        if end < len(content):
            if _whole_frame_after(content, end) or following not in (None, number):
                raise Damaged(
                    f"{path} is damaged at byte {end}, where entry {number} begins; put a copy of the file back, or "
                    f"{REPAIR}, which keeps what is before entry {number} and sets the rest aside."
                )
            self.cut += len(content) - end
            os.truncate(path, end)

    def _continue(self, path: Path) -> None:
        with suppress(FileNotFoundError):  # it was cut off whole
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            self._size = os.fstat(self._file).st_size

    def _write(self, content: bytes) -> None:
        assert self._file is not None
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._size += len(content)

    def _take_back(self, size: int) -> None:
        """Cut off what was half written; if even that fails, a new segment is begun next time."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, size)
            self._size = size
        except OSError:
            self.close()


def _header(first: int) -> bytes:
    start = HEADER.pack(MAGIC, VERSION, first, 0)[: -LENGTH.size]
    return start + LENGTH.pack(zlib.crc32(start))


def _version(path: Path) -> int | None:
    """A segment's version, None if it is gone."""
    try:
        with path.open("rb") as file:
            return int(HEADER.unpack(file.read(HEADER.size))[1])
    except FileNotFoundError:
        return None


def _check_header(path: Path, content: bytes, first: int) -> None:
    """Raise unless a segment begins as one of a version that can be read here. Older versions are read as they are."""
    if len(content) >= HEADER.size:
        magic, version, number, checksum = HEADER.unpack_from(content)
        if magic == MAGIC and checksum == zlib.crc32(content[: HEADER.size - LENGTH.size]) and number == first:
            if 1 <= version <= VERSION:
                return
            raise TrimtabError(
                f"{path} is of journal version {version}, and this trimtab reads up to {VERSION}; use a newer one."
            )
    raise Damaged(
        f"{path} does not begin as a journal's file; put a copy of it back, or {REPAIR}, which sets it aside."
    )


def _frame(entries: Sequence[bytes], number: int) -> bytes:
    body = b"".join(LENGTH.pack(len(entry)) + entry for entry in entries)
    checksum = _checksum(len(body), number, len(entries), body)
    return FRAME.pack(MARK, len(body), checksum, number, len(entries)) + body


def _checksum(length: int, number: int, count: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(FRAME.pack(MARK, length, 0, number, count)))


def _frame_at(content: bytes, place: int) -> tuple[int, int, memoryview] | None:
    """(number of the first entry, entries, body) of a whole frame that begins at a place."""
    if place + FRAME.size > len(content):
        return None
    mark, length, checksum, number, count = FRAME.unpack_from(content, place)
    body = memoryview(content)[place + FRAME.size : place + FRAME.size + length]
    if mark != MARK or len(body) != length or _checksum(length, number, count, body) != checksum:
        return None
    return number, count, body


def whole_part(content: bytes, first: int) -> tuple[list[tuple[int, bytes]], int]:
    """The entries of a segment's whole frames, with their numbers, and where these frames end."""
    entries: list[tuple[int, bytes]] = []
    place = HEADER.size
    while (frame := _frame_at(content, place)) is not None:
        number, count, body = frame
        if number != first + len(entries):
            break
        inside = 0
        for _ in range(count):
            (length,) = LENGTH.unpack_from(body, inside)
            inside += LENGTH.size
            entries.append((number, bytes(body[inside : inside + length])))
            number, inside = number + 1, inside + length
        place += FRAME.size + len(body)
    return entries, place


def _whole_frame_after(content: bytes, place: int) -> bool:
    while (place := content.find(MARK, place + 1)) >= 0:
        if _frame_at(content, place) is not None:
            return True
    return False


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power cut, where a system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
