"""Tenant: one named stream, served. Thread-safe, one writer at a time; what is acknowledged is on the disk.

A tenant that nobody uses can be put to sleep: then it is on the disk alone, and the next call wakes it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.serve.contents import contents, held_positions
from trimtab.serve.folder import StreamFolder
from trimtab.serve.groups import Group, Plan
from trimtab.serve.keeper import Keeper, reason
from trimtab.serve.keys import Keys
from trimtab.serve.ledger import Ledger
from trimtab.serve.listeners import Listeners
from trimtab.serve.records import Answer, Correction, Record, Request
from trimtab.serve.refusals import DiskFull, Frozen, NoSuchStream
from trimtab.serve.settings import StreamSettings
from trimtab.serve.snapshots import Snapshot
from trimtab.serve.thumbnails import Thumbnails
from trimtab.task import Task

WORTH_SAVING = 32  # changes; fewer are repeated at the next wake sooner than a checkpoint is written


class Tenant:
    """One stream in a folder of its own."""

    def __init__(self, path: Path, make_room: Callable[["Tenant"], None] | None = None) -> None:
        self.folder = path
        self._place = StreamFolder(path)
        self.settings, self._logit_scale, self.fingerprint = self._place.read()
        self.name = self.settings.name
        self.last_used = time.monotonic()
        self._make_room = make_room
        self._lock = threading.RLock()
        self._waiting: deque[Group] = deque()
        self._ledger: Ledger | None = None
        self._task: Task | None = None
        self._looked = Keys(len(self.settings.labels))  # repeats of looks, which no journal knows
        self._looks = 0
        self._bytes = 0  # that it took when it was put to sleep
        self._closed = False
        self.events = Listeners()
        self._keeper = Keeper(self._place.snapshots, self.settings, self.events)
        self._thumbnails = Thumbnails(self._place.thumbnails)
        self.trouble = ""  # why the last images were not learned, where the disk is the reason
        self._summary: dict[str, Any] = {"seen": None, "mode": None, "total": None, "version": None, "agreement": None}

    @classmethod
    def create(cls, path: Path, settings: StreamSettings, text: Array, logit_scale: float = 100.0) -> "Tenant":
        """Make a stream: labels and how it learns are settled for good. `text` has one row per label."""
        StreamFolder(path).make(settings, text, logit_scale)
        return cls(path)

    @classmethod
    def open(cls, path: Path, text: Array | None = None, logit_scale: float | None = None) -> "Tenant":
        """A stream as it was left, however it was left. With `text`, another encoder than that of then is refused."""
        tenant = cls(path)
        if text is not None:
            tenant.check_text(text, logit_scale)
        with tenant._awake():
            return tenant

    def check_text(self, text: Array, logit_scale: float | None = None) -> None:
        """Raise if the encoder at hand sees the labels otherwise than the one that the stream was made with."""
        scale = self._logit_scale if logit_scale is None else logit_scale
        now = Task(self.settings.labels, np.asarray(text, np.float32), scale)
        if now.fingerprint != self.fingerprint:
            raise TrimtabError(
                f"The encoder {self.settings.encoder} gives other text features than when stream {self.name!r} was "
                "made; use the encoder and templates of then, or make a new stream."
            )

    # What is asked of it

    def classify(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer images, in order, and learn from those that may teach; if one is refused, nothing is learned."""
        answers = self.classify_each(requests, together=True)
        return [answer for answer in answers if isinstance(answer, Answer)]

    def classify_each(self, requests: Sequence[Request], *, together: bool = False) -> list[Answer | TrimtabError]:
        """The same with each refusal in its place. Whoever waits for the stream shares one flush with the others."""
        group = Group(requests, together)
        self._waiting.append(group)
        with self._lock:
            if not group.done:
                try:
                    with self._awake() as ledger:
                        self._answer(ledger, [self._waiting.popleft() for _ in range(len(self._waiting))])
                except BaseException:
                    with suppress(ValueError):
                        self._waiting.remove(group)
                    raise
        return group.result()

    def views_wanted(self, rows: Array) -> int:
        """How many views of an image to encode, by the features of its first ones: all, but with a view budget."""
        with self._awake() as ledger:
            lazy = ledger.memory.lazy
            return self.settings.views if lazy is None else lazy.wanted(ledger.memory.check_rows(rows))

    def feedback(self, image: str, label: str) -> Correction:
        """Somebody knows what an image shows."""
        if label not in self.settings.labels:
            raise TrimtabError(f"{arguments.shown(label)} is none of the stream's labels.")
        with self._awake() as ledger:
            self._refuse_frozen(ledger)
            ledger.memory.position_of(image)
            rows = ledger.rows_of(image)
            facts = {"id": image, "label": self.settings.labels.index(label)}
            found: Correction = self._commit(ledger, "correct", facts, None if rows is None else rows[:1])
            self.events.tell("correction", **asdict(found))
            return found

    def evict(self, image: str) -> int:
        """Let go of what an image left in the caches; how many items there were."""
        with self._awake() as ledger:
            self._refuse_frozen(ledger)
            ledger.memory.position_of(image)
            count: int = self._commit(ledger, "evict", {"id": image})
            self.events.tell("eviction", id=image, items=count)
            return count

    def forget(self, source: str) -> int:
        """Let go of everything that a source taught; how many items there were."""
        arguments.text("source", source)
        with self._awake() as ledger:
            self._refuse_frozen(ledger)
            count: int = self._commit(ledger, "forget", {"source": source})
            self.events.tell("eviction", source=source, items=count)
            return count

    def freeze(self) -> None:
        """Answer, but learn nothing, until `resume`."""
        self._switch("freeze")

    def resume(self) -> None:
        """Learn again."""
        self._switch("resume")

    def reset(self) -> None:
        """Forget everything learned; a snapshot of it is kept."""
        with self._awake() as ledger:
            self._keeper.keep_before(ledger, "before a reset")
            self._commit(ledger, "reset")
            self.events.tell("mode", mode=self._mode(ledger))

    # Snapshots and states

    def snapshots(self) -> list[Snapshot]:
        """The newest first."""
        return self._keeper.snapshots.list()

    def take_snapshot(self, note: str = "") -> Snapshot:
        """Keep the state as it is, until it is deleted."""
        with self._awake() as ledger:
            return self._keeper.take(ledger, note)

    def restore(self, name: str) -> None:
        """Go back to a snapshot; what is known now is kept as another."""
        with self._awake() as ledger:
            content = self.snapshot_bytes(name)
            facts = {"own": True, "text": f"went back to {name}"}
            self._keeper.put(ledger, content, f"before going back to {name}", facts)

    def delete_snapshot(self, name: str) -> None:
        """Let go of a snapshot."""
        with self._lock:
            self._keeper.snapshots.delete(name)

    def snapshot_bytes(self, name: str) -> bytes:
        """A snapshot's file."""
        return self._keeper.snapshots.path(name).read_bytes()

    def state_bytes(self) -> bytes:
        """What was learned, as a file that `Stream.load`, `Classifier.load` and `put_state` read."""
        with self._awake() as ledger:
            stream = ledger.memory.saved_stream()
        with TemporaryDirectory() as scratch:
            stream.save(Path(scratch) / "state")
            return (Path(scratch) / "state").read_bytes()

    def put_state(self, content: bytes) -> None:
        """Continue from a state that somebody brings, after all checks; what is known now is kept as a snapshot."""
        with self._awake() as ledger:
            facts = {"own": False, "text": "a state was brought"}
            self._keeper.put(ledger, content, "before a state was brought", facts)

    # What it shows

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

    def health(self) -> dict[str, Any]:
        """What the stream has noticed of itself, without labels; without a guard, only how many images it has seen."""
        with self._awake() as ledger:
            stream = ledger.memory.stream
            return {"seen": stream.seen} if stream.watch is None else asdict(stream.health())

    def cache(self, label: str | None = None) -> list[dict[str, Any]]:
        """What the caches hold, per class or of one class."""
        if label is not None and label not in self.settings.labels:
            raise TrimtabError(f"{arguments.shown(label)} is none of the stream's labels.")
        with self._awake() as ledger:
            return contents(ledger.memory, None if label is None else self.settings.labels.index(label))

    def history(self) -> dict[str, Any]:
        """Bounded series for charts."""
        with self._awake() as ledger:
            return ledger.memory.history.series()

    def recent(self, limit: int = 50) -> list[dict[str, Any]]:
        """The last images, the newest first."""
        with self._awake() as ledger:
            return ledger.memory.history.recent(limit)

    def flips(self, limit: int = 50) -> list[dict[str, Any]]:
        """The last images whose answer differs from zero-shot, the newest first."""
        with self._awake() as ledger:
            return ledger.memory.history.flips(limit)

    def thumbnail(self, image: str) -> bytes | None:
        """A small JPEG of an image, if one is kept."""
        return self._thumbnails.get(image)

    def drop_thumbnails(self) -> int:
        """Delete all thumbnails; how many there were."""
        with self._lock:
            return self._thumbnails.drop()

    def listen(self, callback: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Call back at every event, in the thread that caused it: be quick. The function returned ends it."""
        return self.events.listen(callback)

    # Its life

    @property
    def bytes(self) -> int:
        """Memory that it takes, about; 0 while it sleeps."""
        ledger = self._ledger
        if ledger is None:
            return 0
        return (
            sum(array.nbytes for array in ledger.memory.arrays().values()) + ledger.memory.task.text_prototypes.nbytes
        )

    @property
    def bytes_awake(self) -> int:
        """Memory that it took when it was awake last, about."""
        return self.bytes or self._bytes

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
                self._bytes = self.bytes
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

    # How it works

    @contextmanager
    def _awake(self) -> Iterator[Ledger]:
        """The stream in memory, for one thread at a time."""
        with self._lock:
            self.last_used = time.monotonic()
            if self._closed:
                raise NoSuchStream(f"Stream {self.name!r} has been closed or deleted.")
            if self._ledger is not None and self._ledger.broken:
                self._fall_asleep()  # a change was broken off: what is on the disk is whole
            if self._ledger is None:
                if self._make_room is not None:
                    self._make_room(self)
                self._task = self._place.task()
                self._ledger = Ledger(self._place, self.settings, self._task)
                self._keeper.awake(self._ledger)
            yield self._ledger

    def _fall_asleep(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = self._task = None

    def _answer(self, ledger: Ledger, groups: Sequence[Group]) -> None:
        """One commit for all groups that wait."""
        try:
            plan = Plan(ledger.memory, self._looked, groups)
            why_not = ""
            if plan.records:
                try:
                    with self.events.of_caches(ledger.memory):
                        plan.learned(ledger.commit(plan.records))
                except OSError as error:
                    why_not = f"Nothing was learned: {reason(error)}"
                self.trouble = why_not
            plan.look(why_not, self._next_look)
        except BaseException as error:
            for group in groups:
                group.fail(error)
            raise
        for request, answer in plan.fresh():
            self.events.answered(answer)
            if request.picture is not None and self.settings.thumbnails and answer.durable:
                self._thumbnails.put(answer.id, request.picture, lambda: self._held(ledger))
        self._keeper.look(ledger)

    def _next_look(self) -> str:
        self._looks += 1
        return f"look-{self._looks}"

    def _held(self, ledger: Ledger) -> Collection[str]:
        ids = (ledger.memory.lineage.id_of(int(position)) for position in held_positions(ledger.memory))
        return {image for image in ids if image is not None}

    def _commit(self, ledger: Ledger, kind: str, facts: dict[str, Any] | None = None, rows: Array | None = None) -> Any:
        """Write one change down and make it; an error says that nothing has changed."""
        record = Record(kind, {**(facts or {}), "when": time.time()}, rows)
        try:
            (result,) = ledger.commit([record])
        except OSError as error:
            raise DiskFull(f"Nothing was changed: {reason(error)}") from error
        if isinstance(result, TrimtabError):
            raise result
        return result

    def _switch(self, kind: str) -> None:
        with self._awake() as ledger:
            if ledger.memory.frozen != (kind == "freeze"):
                self._commit(ledger, kind)
                self.events.tell("mode", mode=self._mode(ledger))

    def _refuse_frozen(self, ledger: Ledger) -> None:
        if ledger.memory.frozen:
            raise Frozen(f"Stream {self.name!r} is frozen; resume it before you change what it knows.")

    def _mode(self, ledger: Ledger) -> str:
        stream = ledger.memory.stream
        if ledger.memory.frozen:
            return "frozen"
        fallen = stream.watch is not None and stream.health().fallen
        return "zero-shot only" if fallen or not stream.arrays().keys() - {"seen"} else "adapting"

    def _note_summary(self, ledger: Ledger) -> None:
        memory = ledger.memory
        self._summary = {
            "seen": memory.stream.seen,
            "mode": self._mode(ledger),
            "total": memory.history.total,
            "version": memory.version,
            "agreement": memory.history.agreement(),
        }
