"""Memory: all that a stream has learned and remembers, changed by records and by nothing else.

The server and a recovery both call `apply` with the same records in the same order, so both come to the same state, bit
for bit: one image is one `step`, live as in a replay, because products of blocks would round differently.
"""

from typing import Any

import numpy as np

from trimtab.engine.arrays import Array, Arrays, unit_rows
from trimtab.engine.equations import softmax
from trimtab.errors import TrimtabError
from trimtab.lazy_views import LAZY_NOTE, LazyViews, repeated
from trimtab.predictions import Prediction
from trimtab.serve.history import History
from trimtab.serve.keys import Keys
from trimtab.serve.lineage import Lineage
from trimtab.serve.records import Answer, Correction, Guess, Record
from trimtab.serve.refusals import NoSuchImage
from trimtab.serve.settings import MOST_VIEWS, StreamSettings
from trimtab.stream import Stream
from trimtab.task import Task

LINEAGE_NOTE = "lineage"  # where a saved stream notes whose past it shares


PER_ANSWER = 1300  # bytes of memory that an answer takes beside its probabilities; measured
ALARMS = {
    "restarts": "Everything was forgotten: the stream began among crafted images.",
    "falls": "Neighbors say that adapting hurts: zero-shot answers.",
    "returns": "Zero-shot has answered for long: an earlier state was put back.",
}
RECOVERED = "Adapting helps again."


class Memory:
    """A stream, whether it is frozen, its keys, its history, and which images it has seen."""

    def __init__(self, settings: StreamSettings, task: Task) -> None:
        self.settings, self.task = settings, task
        self.stream = Stream(settings.make_method(), task, settings.make_guard())
        budget = settings.view_budget
        self.lazy = None if budget is None else LazyViews(task, settings.views, budget)
        self.frozen = False
        self.version = 0  # records applied
        self.keys = Keys(task.classes)
        self.lineage = Lineage()
        self.history = History(settings.labels)
        self.news: list[str] = []  # what the guard did, for whoever listens
        self._guard: dict[str, int] = {}  # how often it had done what by the last look back

    def apply(self, record: Record, given: Stream | None = None) -> Any:
        """Make a record's change; what it gives back depends on its kind. `given` is the state to put in its place."""
        change = getattr(self, f"_{record.kind}", None) if record.kind in KINDS else None
        if change is None:
            raise TrimtabError(
                f"The journal holds a record of a kind that this trimtab does not know: {record.kind!r}."
            )
        self.version += 1
        return change(record) if given is None else change(record, given)

    def look(self, rows: Array, name: str, why_not: str, *, durable: bool) -> Answer:
        """What the stream says of an image, without a trace."""
        return self._answer(rows, self.stream.predict(self._all_views(rows)), name, why_not, durable=durable)

    def check_rows(self, rows: Any) -> Array:
        """(V, d) float32 features that `step` will take, or an error."""
        found = np.atleast_2d(np.asarray(rows))
        if found.dtype.kind not in "fiu" or found.ndim != 2 or found.shape[1] != self.task.dim or not len(found):
            raise TrimtabError(
                f"An image's features must be numbers of shape (views, {self.task.dim}), not "
                f"{found.dtype} of shape {found.shape}."
            )
        if len(found) > MOST_VIEWS:
            raise TrimtabError(f"An image may have up to {MOST_VIEWS} views, not {len(found)}; the features hold more.")
        found = np.ascontiguousarray(found, np.float32)
        lengths = np.linalg.norm(found.astype(np.float64), axis=1)
        if not np.all(np.isfinite(lengths) & (lengths > 1e-5) & (lengths < 1e15)):
            raise TrimtabError("An image's features hold NaN, infinity or a row of zeros; encode the image again.")
        return found

    def saved_stream(self) -> Stream:
        """An independent copy of the stream, with notes of what belongs to it."""
        copy = self.stream.copy()
        copy.note = {LINEAGE_NOTE: self.lineage.to_note()["epochs"]}
        if self.lazy is not None:
            copy.note[LAZY_NOTE] = self.lazy.note()
        return copy

    def arrays(self) -> Arrays:
        """The live arrays of what was learned."""
        return self.stream.arrays()

    @property
    def bytes(self) -> int:
        """Memory that it takes, about."""
        learned = sum(array.nbytes for array in self.arrays().values())
        remembered = len(self.keys) * (PER_ANSWER + 4 * self.task.classes) + len(self.history) * PER_ANSWER
        return learned + remembered + self.task.text_prototypes.nbytes

    def to_note(self) -> dict[str, Any]:
        """All but the stream itself, as JSON can hold it."""
        return {
            "version": self.version,
            "frozen": self.frozen,
            "keys": self.keys.to_note(),
            "lineage": self.lineage.to_note(),
            "history": self.history.to_note(),
            "guard": self._guard,
        }

    def recall(self, note: dict[str, Any], stream: Stream) -> None:
        """Know what `to_note` was made from, and continue with a stream that was saved at the same time."""
        self.version, self.frozen = note["version"], note["frozen"]
        self.keys.recall(note["keys"])
        self.lineage.recall(note["lineage"])
        self.history.recall(note["history"])
        self._guard = note["guard"]
        self._take(stream)

    def begin_from(self, stream: Stream, epochs_apart: int) -> None:
        """Know a saved stream and nothing else: the past that led to it is lost."""
        epochs = stream.note.get(LINEAGE_NOTE, [])
        self._take(stream)
        self.lineage.newest = max((int(epoch) for epoch, _ in epochs), default=0) + epochs_apart
        self.lineage.begin(stream.seen, epochs)

    def check_given(self, stream: Stream, what: str) -> None:
        """Raise unless a state that somebody brings can take the place of this stream's."""
        mine, theirs = self.stream.guard, stream.guard
        if (mine and mine.parameters()) != (theirs and theirs.parameters()):
            raise TrimtabError(
                f"{what} was saved with another guard than this stream has; make a stream with that guard."
            )
        answer = stream.copy().predict(self.task.text_prototypes[0])
        if not np.isfinite(answer.probabilities).all():
            raise TrimtabError(f"{what} holds NaN or infinity; its answers would be none.")

    def _take(self, stream: Stream) -> None:
        self.stream = stream
        if self.lazy is not None:
            try:
                self.lazy.recall(stream.note.get(LAZY_NOTE))
            except (KeyError, TypeError, ValueError) as error:
                raise TrimtabError(f"The state's note on lazy views is not one: {error}.") from None
        stream.note = {}

    def _image(self, record: Record) -> Answer:
        """Take in an image."""
        facts, rows = record.facts, record.rows
        assert rows is not None
        prediction = self.stream.step(self._all_views(rows), facts.get("source"))
        if self.lazy is not None:
            self.lazy.take_in(rows)
        position = self.stream.seen - 1
        why = self.stream.why(position)
        name = self.lineage.id_of(position)
        assert name is not None
        answer = self._answer(rows, prediction, name, "" if why.startswith("Learned") else why, durable=True)
        self.keys.remember(facts.get("key"), facts.get("body", ""), answer)
        shown = {"source": facts.get("source"), "when": facts.get("when")}
        if self.history.take_in(answer, shown):
            self._look_back(facts.get("when", 0.0))
        return answer

    def _look_back(self, when: float) -> None:
        """At the end of a bin: what the guard has done since the last one."""
        if self.stream.watch is None:
            self.history.close_bin(None)
            return
        health = self.stream.health()
        self.history.close_bin(health.drift)
        now = {"restarts": health.restarts, "falls": health.falls, "returns": health.returns, "fallen": health.fallen}
        for name, sentence in ALARMS.items():
            if now[name] > self._guard.get(name, 0):
                self.history.happened("guard", sentence, when)
                self.news.append(sentence)
        if self._guard.get("fallen") and not health.fallen:
            self.history.happened("guard", RECOVERED, when)
            self.news.append(RECOVERED)
        self._guard = now

    def _correct(self, record: Record) -> Correction:
        """Believe a human answer."""
        image, label = record.facts["id"], int(record.facts["label"])
        position = self.position_of(image)
        moved = self.stream.correct(position, label, record.rows)
        name = self.task.class_names[label]
        said = self.history.corrected(image, name)
        return Correction(
            image, name, said, moved, moved > 0 or record.rows is not None, self.stream.seen, self.version
        )

    def _evict(self, record: Record) -> int:
        """Let go of what an image left."""
        return self.stream.evict(self.position_of(record.facts["id"]))

    def _forget(self, record: Record) -> int:
        """Let go of what a source taught."""
        return self.stream.forget(record.facts["source"])

    def _freeze(self, record: Record) -> None:
        self.frozen = True
        self.history.happened("mode", "frozen", record.facts.get("when", 0.0))

    def _resume(self, record: Record) -> None:
        self.frozen = False
        self.history.happened("mode", "resumed", record.facts.get("when", 0.0))

    def _reset(self, record: Record) -> None:
        self.stream.reset()
        if self.lazy is not None:
            self.lazy.reset()
        self.lineage.begin(0)
        self.history.begin()
        self.history.happened("mode", "reset", record.facts.get("when", 0.0))

    def _replace(self, record: Record, given: Stream) -> None:
        """Continue from another state."""
        note = given.note.get(LINEAGE_NOTE)
        before = note if record.facts.get("own") and isinstance(note, list) else ()
        self._take(given)
        self.lineage.begin(given.seen, before)
        self.history.happened("snapshot", record.facts.get("text", "restored"), record.facts.get("when", 0.0))

    def position_of(self, image: str) -> int:
        """The position of an image that the stream has taken in."""
        position = self.lineage.position_of(image)
        if position >= self.stream.seen:
            raise NoSuchImage(f"There is no image {image}; the stream has seen {self.stream.seen}.")
        return position

    def _all_views(self, rows: Array) -> Array:
        return rows if self.lazy is None else repeated(rows, self.settings.views)

    def _answer(self, rows: Array, prediction: Prediction, name: str, why_not: str, *, durable: bool) -> Answer:
        plain = unit_rows(rows[:1])
        text = softmax(self.task.logit_scale * (plain @ self.task.text_prototypes.T))[0]
        best, given = self._guess(prediction.probabilities), prediction.probabilities.argmax()
        # A part that has nothing to say yet, as Keel's memory before its first fit, holds all classes alike.
        speaking = {part: values for part, values in prediction.parts.items() if values.max() > values.min()}
        return Answer(
            id=name,
            label=best.label,
            score=best.score,
            clearness=prediction.score,
            probabilities=prediction.probabilities,
            zero_shot=self._guess(text),
            parts={part: self._guess(values) for part, values in speaking.items()},
            agree=all(values[given] >= values.max() for values in speaking.values()),
            doubt=prediction.unknown,
            seen=self.stream.seen,
            version=self.version,
            learned=not why_not,
            why_not=why_not,
            durable=durable,
        )

    def _guess(self, probabilities: Array) -> Guess:
        best = int(probabilities.argmax())
        return Guess(self.task.class_names[best], float(probabilities[best]))


KINDS = ("image", "correct", "evict", "forget", "freeze", "resume", "reset", "replace")
