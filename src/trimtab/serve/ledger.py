"""Ledger: a stream's memory and its journal. A change is written down, then made; a recovery makes it again."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.files import sha256_of, write_whole
from trimtab.serve.checkpoints import Checkpoints, note_of
from trimtab.serve.folder import StreamFolder
from trimtab.serve.journal import REPAIR, Journal
from trimtab.serve.memory import Memory
from trimtab.serve.records import Record
from trimtab.serve.refusals import Damaged
from trimtab.serve.settings import StreamSettings
from trimtab.stream import Stream
from trimtab.task import Task

_log = logging.getLogger(__name__)
MAY_FAIL = ("correct", "evict", "forget")  # for reasons that lie in the stream: then they fail again in a replay


class Ledger:
    """What a stream knows, on the disk and in memory. For one writer at a time."""

    def __init__(self, folder: StreamFolder, settings: StreamSettings, task: Task) -> None:
        self._folder, self._settings, self._task = folder, settings, task
        folder.tidy()
        self._checkpoints = Checkpoints(folder.checkpoints)
        self.journal = Journal(folder.journal, settings.fsync)
        self.memory = self._recover()
        self.broken = False  # while a change is half made

    def commit(self, records: Sequence[Record], given: Stream | None = None) -> list[Any]:
        """Write records down, all or none (OSError), and make their changes; what each gives back, or its error."""
        self.journal.append([record.to_bytes() for record in records])
        self.broken = True
        results = [_applied(self.memory, record, given) for record in records]
        self.broken = False
        return results

    def replace(self, content: bytes, facts: dict[str, Any]) -> None:
        """Continue from another state, given as a file's bytes; it is kept as long as the journal speaks of it."""
        path = self._given(self.journal.next)
        write_whole(path, content)
        try:
            stream = self._load_given(path)
            digest = hashlib.sha256(content).hexdigest()
            self.commit([Record("replace", {**facts, "sha256": digest})], stream)
        except BaseException:
            if not self.broken:
                path.unlink(missing_ok=True)
            raise

    def changes_since_checkpoint(self) -> int:
        """How many records a recovery would have to apply."""
        return self.memory.version - self.checkpoint

    def prepare_checkpoint(self, facts: dict[str, Any] | None = None) -> Callable[[], Path]:
        """Copy everything now; the function that is returned writes it, and may do so in another thread."""
        number, stream = self.memory.version, self.memory.saved_stream()
        note = note_of(number, self.memory)
        if facts is not None:
            stream.note["snapshot"] = facts
        self.journal.roll()

        def write() -> Path:
            self._checkpoints.write(number, note, stream)
            return self._checkpoints.state(number)

        self.checkpoint = number
        return write

    def drop_old(self) -> None:
        """Remove what no recovery needs any more."""
        oldest = self._checkpoints.drop_old()
        if oldest is None:
            return
        self.journal.drop_before(oldest)
        for path in self._folder.given.glob("*.safetensors"):
            if path.stem.isdecimal() and int(path.stem) < oldest:
                path.unlink(missing_ok=True)

    def rows_of(self, image: str) -> Any:
        """The features of an image, (V, d), as long as the journal holds them; else None."""
        for entry in self.journal.kept():
            record = Record.from_bytes(entry)
            if record.kind == "image" and record.facts.get("id") == image:
                return record.rows
        return None

    def close(self) -> None:
        """Let go of the files."""
        self.journal.close()

    def _recover(self) -> Memory:
        """The last checkpoint that can be read, and the journal since then."""
        memory, start, unread = self._last_checkpoint()
        self.checkpoint = start
        try:
            self._repeat(memory, start)
        except Damaged as error:
            for why in unread.values():
                error.args = (f"{why} Without that checkpoint: {error}",)
            raise
        if self.journal.cut:
            _log.warning("%s: %d bytes of an unfinished group cut off", self._folder.path.name, self.journal.cut)
        if memory.version != self.journal.next:
            raise Damaged(f"The journal in {self.journal.folder} does not fit its checkpoint; put copies of both back.")
        for number, why in unread.items():  # not before all is well: another version may be able to read it
            _log.warning("checkpoint %d was set aside, and the one before it taken: %s", number, why)
            self._checkpoints.set_aside(number)
        return memory

    def _repeat(self, memory: Memory, start: int) -> None:
        """Apply the journal's records from a number on."""
        kept = start
        try:
            for number, entry in self.journal.replay(start):
                record = Record.from_bytes(entry)
                given = self._given_of(number, record) if record.kind == "replace" else None
                _applied(memory, record, given)
                kept = number + 1
        except Damaged as error:
            error.kept = kept
            raise
        except (TrimtabError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever a record that cannot be repeated makes of a method
            damage = Damaged(
                f"Entry {kept} of the journal cannot be applied ({error!r}); put a copy back, or {REPAIR}."
            )
            damage.kept = kept
            raise damage from error

    def _last_checkpoint(self) -> tuple[Memory, int, dict[int, Exception]]:
        """What the newest readable checkpoint knows, its number, and why those after it could not be read."""
        unread: dict[int, Exception] = {}
        for number in self._checkpoints.numbers():
            memory = Memory(self._settings, self._task)
            try:
                note, stream = self._checkpoints.load(number, self._task, memory.stream.method)
                memory.recall(note, stream)
            except (TrimtabError, KeyError, TypeError, ValueError) as error:
                unread[number] = error
                continue
            return memory, number, unread
        return Memory(self._settings, self._task), 0, unread

    def _given(self, number: int) -> Path:
        return self._folder.given / f"{number:020d}.safetensors"

    def _given_of(self, number: int, record: Record) -> Stream:
        path = self._given(number)
        with suppress(OSError):
            if sha256_of(path) == record.facts["sha256"]:
                return self._load(path)
        raise Damaged(f"{path}, a state that the stream was put back to, is missing or damaged; put a copy of it back.")

    def _load_given(self, path: Path) -> Stream:
        """A state that somebody brings, after all checks; what is wrong is said without the server's paths."""
        try:
            stream = self._load(path)
        except TrimtabError as error:
            raise TrimtabError(str(error).replace(str(path), "The state")) from None
        self.memory.check_given(stream, "The state")
        return stream

    def _load(self, path: Path) -> Stream:
        return Stream.load(path, self._task, self._settings.make_method())


def _applied(memory: Memory, record: Record, given: Stream | None) -> Any:
    try:
        return memory.apply(record, given)
    except TrimtabError as error:
        if record.kind in MAY_FAIL:
            return error
        raise
