"""Keeper: when a stream's checkpoints and snapshots are written, and what is put back."""

import errno
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.serve.ledger import Ledger
from trimtab.serve.listeners import Listeners
from trimtab.serve.refusals import DiskFull
from trimtab.serve.settings import StreamSettings
from trimtab.serve.snapshots import Snapshot, Snapshots

_log = logging.getLogger(__name__)
CHANGES_PER_CHECKPOINT = 1000  # where no snapshot comes earlier: about as many steps as a recovery repeats
CHECKPOINT_BYTES = 32 << 20  # of the journal, where images have many views
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Keeper:
    """Writes checkpoints beside the stream's work: its state is copied at once, and written by another thread."""

    def __init__(self, folder: Path, settings: StreamSettings, events: Listeners) -> None:
        self._every = settings.snapshot_every
        self.snapshots = Snapshots(folder, settings.keep_snapshots)
        self._events = events
        self._writer: threading.Thread | None = None
        self._snapshot_at = 0  # images taken in, ever, when the last automatic snapshot was taken

    def awake(self, ledger: Ledger) -> None:
        """The stream has been read from the disk."""
        self._snapshot_at = ledger.memory.history.total

    def look(self, ledger: Ledger) -> None:
        """Begin a checkpoint if one is due and none is on its way."""
        if self._writer is not None and self._writer.is_alive():
            return
        total = ledger.memory.history.total
        if self._every and total - self._snapshot_at >= self._every:
            self._snapshot_at = total
            self.checkpoint(ledger, _facts(ledger, "", automatic=True))
        elif ledger.changes_since_checkpoint() >= CHANGES_PER_CHECKPOINT or ledger.journal.size >= CHECKPOINT_BYTES:
            self.checkpoint(ledger)

    def checkpoint(self, ledger: Ledger, facts: dict[str, Any] | None = None) -> None:
        """Begin a checkpoint; with facts it is a snapshot, too. One that fails leaves the older one and the journal."""
        self.finish()
        try:
            write = ledger.prepare_checkpoint(facts)
        except OSError as error:
            _log.warning("no checkpoint: %s", reason(error))
            return
        self._writer = threading.Thread(
            target=self._write, args=(ledger, write, facts, _name(ledger)), name="trimtab checkpoint", daemon=True
        )
        self._writer.start()

    def finish(self) -> None:
        """Wait for a checkpoint that is on its way."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def take(self, ledger: Ledger, note: str) -> Snapshot:
        """Keep the state as it is, until it is deleted."""
        return self._take(ledger, note, automatic=False)

    def _take(self, ledger: Ledger, note: str, *, automatic: bool) -> Snapshot:
        self.finish()
        facts = _facts(ledger, note, automatic=automatic)
        try:
            snapshot = self.snapshots.take(_name(ledger), ledger.memory.saved_stream(), facts)
        except TrimtabError as error:
            if isinstance(error.__cause__, OSError):
                raise DiskFull(f"No snapshot was taken: {reason(error.__cause__)}") from error
            raise
        self._events.tell("snapshot", name=snapshot.name, seen=snapshot.seen, note=note)
        return snapshot

    def put(self, ledger: Ledger, content: bytes, note: str, facts: dict[str, Any]) -> None:
        """Put a state in the place of the stream's; what is known now is kept as a snapshot."""
        try:
            self.keep_before(ledger, note)
            ledger.replace(content, {**facts, "when": time.time()})
        except OSError as error:
            raise DiskFull(f"Nothing was changed: {reason(error)}") from error
        self._events.tell("snapshot", name=None, seen=ledger.memory.stream.seen, note=facts["text"])

    def keep_before(self, ledger: Ledger, note: str) -> None:
        """Keep the state, as an automatic snapshot, before it is changed for good."""
        if ledger.memory.stream.seen:
            self._take(ledger, note, automatic=True)

    def _write(self, ledger: Ledger, write: Callable[[], Path], facts: dict[str, Any] | None, name: str) -> None:
        try:
            state = write()
            if facts is not None:
                snapshot = self.snapshots.adopt(name, state)
                self._events.tell("snapshot", name=name, seen=snapshot.seen, note=snapshot.note)
            ledger.drop_old()
        except (OSError, TrimtabError) as error:
            _log.warning("no checkpoint: %s", error)


def reason(error: OSError) -> str:
    """Why something cannot be written, in a sentence."""
    if error.errno in FULL:
        return "the disk is full; free some space, and learning continues by itself."
    return f"the disk cannot be written ({error.strerror or error})."


def _name(ledger: Ledger) -> str:
    return f"v{ledger.memory.version:012d}"


def _facts(ledger: Ledger, note: str, *, automatic: bool) -> dict[str, Any]:
    agreement = ledger.memory.history.agreement()
    return {"when": time.time(), "note": note, "agreement": agreement, "automatic": automatic}
