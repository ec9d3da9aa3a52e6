"""Sleeper: the life of a stream that is served: in memory while it is used, else on the disk, until the next call."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.serve.folder import StreamFolder
from trimtab.serve.keeper import Keeper
from trimtab.serve.ledger import Ledger
from trimtab.serve.listeners import Listeners
from trimtab.serve.refusals import Damaged, NoSuchStream
from trimtab.task import Task

SUMMARY = "summary.json"
WORTH_SAVING = 32  # changes; fewer are repeated at the next wake sooner than a checkpoint is written


class Sleeper:
    """A stream's folder, its lock, and what of it is in memory. `Tenant` is what a server holds."""

    def __init__(self, path: Path, make_room: Callable[["Sleeper"], None] | None = None) -> None:
        self.folder = path
        self._place = StreamFolder(path)
        self.settings, self._logit_scale, self.fingerprint = self._place.read()
        self.name = self.settings.name
        self.last_used = time.monotonic()
        self.bytes_awake = 0  # memory that it took when it was awake last, about
        self.events = Listeners()
        self._make_room = make_room
        self._lock = threading.RLock()
        self._ledger: Ledger | None = None
        self._keeper = Keeper(self._place.snapshots, self.settings, self.events)
        self._closed = False
        self._summary: dict[str, Any] = self._last_summary()

    def check_text(self, text: Array, logit_scale: float | None = None) -> None:
        """Raise if the encoder at hand sees the labels otherwise than the one that the stream was made with."""
        scale = self._logit_scale if logit_scale is None else logit_scale
        now = Task(self.settings.labels, np.asarray(text, np.float32), scale)
        if now.fingerprint != self.fingerprint:
            raise TrimtabError(
                f"The encoder {self.settings.encoder} gives other text features than when stream {self.name!r} was "
                "made; use the encoder and templates of then, or make a new stream."
            )

    @property
    def mode(self) -> str:
        """Whether it is adapting, frozen, or answers by zero-shot only."""
        with self._awake() as ledger:
            return self._mode(ledger)

    def summary(self) -> dict[str, Any]:
        """A few facts, as they were last known; a stream that sleeps is not woken."""
        with self._lock:
            if self._ledger is not None:
                self._note_summary(self._ledger)
            return {"name": self.name, "awake": self._ledger is not None, **self._summary}

    @property
    def bytes(self) -> int:
        """Memory that it takes, about; 0 while it sleeps."""
        return 0 if self._ledger is None else self.bytes_awake

    def sleep(self, *, wait: bool = True) -> bool:
        """Go to the disk, until the next call; False if it is in use and `wait` is not given."""
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            ledger = self._ledger
            if ledger is not None:
                self._keeper.finish()
                if not ledger.broken and ledger.changes_since_checkpoint() > WORTH_SAVING:
                    self._keeper.checkpoint(ledger)
                    self._keeper.finish()
                self._note_summary(ledger)
                with suppress(OSError):  # for lists alone
                    (self.folder / SUMMARY).write_text(json.dumps(self._summary))
                self._fall_asleep()
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """Go to the disk for good."""
        with self._lock:
            self.sleep()
            self._closed = True

    def delete(self) -> None:
        """Delete the stream with all that it has learned."""
        with self._lock:
            self._keeper.finish()
            self._fall_asleep()
            self._closed = True
            self._place.remove()

    @contextmanager
    def _awake(self) -> Iterator[Ledger]:
        """The stream in memory, for one thread at a time."""
        with self._lock:
            self.last_used = time.monotonic()
            if self._closed:
                raise NoSuchStream(f"Stream {self.name!r} has been closed or deleted.")
            if self._ledger is not None and self._ledger.broken:
                self._keeper.finish()
                self._fall_asleep()  # a change was broken off: what is on the disk is whole
            if self._ledger is None:
                self._claim_room()
                self._ledger = self._read()
                self._keeper.awake(self._ledger)
                self._note_summary(self._ledger)
                self._claim_room()  # once more: now it is known how much it takes
            yield self._ledger

    def _claim_room(self) -> None:
        if self._make_room is not None:
            self._make_room(self)

    def _read(self) -> Ledger:
        """From the disk; what is wrong there is said without the server's own paths."""
        try:
            return Ledger(self._place, self.settings, self._place.task())
        except Damaged as error:
            error.args = (str(error).replace(f"{self.folder.parent}{os.sep}", ""),)
            raise

    def _fall_asleep(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = None

    def _mode(self, ledger: Ledger) -> str:
        stream = ledger.memory.stream
        if ledger.memory.frozen:
            return "frozen"
        fallen = stream.watch is not None and stream.health().fallen
        return "zero-shot only" if fallen or not stream.arrays().keys() - {"seen"} else "adapting"

    def _last_summary(self) -> dict[str, Any]:
        """What was known when it fell asleep; a kill leaves an older one, or none."""
        found: dict[str, Any] = dict.fromkeys(("seen", "mode", "total", "version", "agreement"))
        with suppress(OSError, ValueError, AttributeError):
            kept = json.loads((self.folder / SUMMARY).read_text())
            found |= {name: kept.get(name) for name in found}
        return found

    def _note_summary(self, ledger: Ledger) -> None:
        memory = ledger.memory
        self.bytes_awake = memory.bytes
        self._summary = {
            "seen": memory.stream.seen,
            "mode": self._mode(ledger),
            "total": memory.history.total,
            "version": memory.version,
            "agreement": memory.history.agreement(),
        }
