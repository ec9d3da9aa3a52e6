"""Tenant: one named stream, served. Thread-safe, one writer at a time; what is acknowledged is on the disk."""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
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
from trimtab.serve.keeper import reason
from trimtab.serve.keys import Keys
from trimtab.serve.ledger import Ledger
from trimtab.serve.records import LOOK, Answer, Correction, Record, Request
from trimtab.serve.refusals import DiskFull, Frozen
from trimtab.serve.settings import StreamSettings
from trimtab.serve.sleeper import Sleeper
from trimtab.serve.snapshots import Snapshot
from trimtab.serve.thumbnails import Thumbnails


class Tenant(Sleeper):
    """One stream in a folder of its own."""

    def __init__(self, path: Path, make_room: Callable[[Sleeper], None] | None = None) -> None:
        super().__init__(path, make_room)
        self._waiting: deque[Group] = deque()
        self._looked = Keys(len(self.settings.labels))  # repeats of looks, which no journal knows
        self._looks = 0
        self._thumbnails = Thumbnails(self._place.thumbnails)
        self.trouble = ""  # why the last images were not learned, where the disk is the reason

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
        return self._keeper.snapshots.content(name)

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

    def health(self) -> dict[str, Any]:
        """What the stream has noticed of itself, without labels; without a guard, only how many images it has seen."""
        with self._awake() as ledger:
            stream = ledger.memory.stream
            if stream.watch is None:
                return {"seen": stream.seen}
            figures = asdict(stream.health())
            return {name: value.item() if isinstance(value, np.generic) else value for name, value in figures.items()}

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

    # How it works

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
        for sentence in ledger.memory.news:
            self.events.tell("guard", why_not=sentence, mode=self._mode(ledger), seen=ledger.memory.stream.seen)
        ledger.memory.news.clear()
        for request, answer in plan.fresh():
            self.events.answered(answer)
            if request.picture is not None and self.settings.thumbnails and answer.taken_in:
                self._thumbnails.put(answer.id, request.picture, lambda: self._held(ledger))
        self._keeper.look(ledger)

    def _next_look(self) -> str:
        self._looks += 1
        return f"{LOOK}{self._looks}"

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
