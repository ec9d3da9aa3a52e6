"""Stream: a method at work on a task. This is what users hold."""

import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trimtab import arguments
from trimtab.engine import inputs
from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.given import inputs_of
from trimtab.engine.state import fill
from trimtab.engine.state_io import SavedState, check_method, check_task, completed, read_state, write_state
from trimtab.engine.wide import hold_like
from trimtab.errors import TrimtabError
from trimtab.guard.health import HealthReport
from trimtab.guard.rules import Guard, make_guard
from trimtab.guard.sources import source_numbers
from trimtab.guard.watch import STRETCH, zero_shot
from trimtab.interrupts import HoldInterrupts
from trimtab.mending import Mendable
from trimtab.notebook import stream_html
from trimtab.predictions import Prediction as Prediction
from trimtab.predictions import Predictions as Predictions
from trimtab.predictions import prediction_of
from trimtab.registry import make_method
from trimtab.steps import Steps
from trimtab.task import Task

BLOCK = 64  # images per matrix product; more gains little and waits longer


class Stream(Mendable):
    """A method, a task and what has been learned so far.

    `step` takes one image, `run` many: the same numbers, much faster. Images are taken in as they come; `predict` says
    what `step` would say and leaves no trace. `save` and `load` keep what was learned, `copy` is a snapshot to go back
    to, `reset` forgets.

    An image is taken in wholly or not at all: Ctrl-C waits until the image at hand is done, and `seen` says how many
    are. Should anything else break off a step (memory that runs out, an error in a method of your own), the stream says
    so from then on instead of predicting from, or saving, something half learned.

    Threads may share a stream: each call waits for the one before it, and a `run` lets others in between its blocks.
    `copy.copy`, `copy.deepcopy` and `pickle` give what `copy` gives.

    `note` is yours: facts that JSON can hold, saved with what was learned and there again after `load`.
    """

    def __init__(self, method: Steps, task: Task, guard: Guard | None = None) -> None:
        self.method = arguments.instance("method", method, Steps, "a method such as MCP()")
        self.task = arguments.instance("task", task, Task, "a trimtab.Task")
        self.guard = guard if guard is None else arguments.instance("guard", guard, Guard, "a trimtab.Guard")
        self._given, self._size = inputs_of(method.name, method.needs, task)
        self._turn = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Forget everything: the stream is as new."""
        with self._turn:
            super().reset()
            self.note: dict[str, Any] = {}

    def __repr__(self) -> str:
        guarded = "" if self.guard is None else ", guarded"
        return f"<Stream: {self.method.name}, {self.task.classes:,} classes, {self.seen:,} seen{guarded}>"

    def _repr_html_(self) -> str:
        return stream_html(self)

    def step(self, views: ArrayLike, source: str | None = None) -> Prediction:
        """Take in one image, (V, d) or (d,), and predict it.

        `source` says who sent it, for a guard's quota and for `forget`.
        """
        image, sources = self._given.one_image(views, self._size), source_numbers([source], 1)
        with self._turn, HoldInterrupts():
            ((parts, (fused,), (doubt,)),) = self._walk(image, sources)
            return prediction_of({name: part[0] for name, part in parts.items()}, fused, doubt)

    def predict(self, views: ArrayLike) -> Prediction:
        """What `step` would answer of one image, (V, d) or (d,), without a trace: it is taken in, and out again.

        Methods that store an image before they predict it count on finding it there: without it, a class that holds
        nothing yet would compete with classes that do. The image may be from anywhere: what was just there says
        nothing about it, as after a `cut`.
        """
        image = self._given.one_image(views, self._size)
        with self._turn, HoldInterrupts():
            return self._look(image)

    def cut(self) -> None:
        """Say that what comes next has nothing to do with what came before: another camera, another album.

        With weights found from the stream, what was just there is otherwise expected again, as far as it has shown to
        come in runs. Nothing else is forgotten.
        """
        with self._turn, HoldInterrupts():
            self.fusion.cut()
            if self.watch is not None:
                self.watch.runs.cut()

    def read(self, views: ArrayLike) -> Prediction:
        """What the state as it is says of one image, which has no part in it: the bare formulas.

        For studies of a state. Of a stream that is frozen, or not to learn from the image, ask `predict`.
        """
        image = self._given.one_image(views, self._size)
        with self._turn:
            self._refuse_half_learned()
            (block,) = self._blocks(image)
            self.state.open(block)
            parts = self.method.predict(next(iter(block)), self.state)
            return prediction_of(parts, self.fusion.combine(parts))

    def _look(self, views: Array) -> Prediction:
        """The answer of a step whose writes are taken back."""
        self._refuse_half_learned()
        (block,) = self._blocks(views)
        doubt = 0.0 if self.watch is None else self.watch.doubt_about(block)
        self._whole = False
        try:
            parts, fused = self._foretell(block)
        finally:
            self._whole = True
        if self.watch is None:
            return prediction_of(parts, fused)
        return prediction_of(parts, zero_shot(block, slice(0, 1))[0] if self.watch.fallen else fused, doubt)

    def run(
        self,
        features: inputs.FeatureRows | ArrayLike,
        *,
        block: int = BLOCK,
        keep_parts: bool = True,
        sources: Sequence[str | None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Take in N images, (N, V, d) or (N, d), and predict each: the same as N steps.

        `features` may be a memory map or a feature store; it is read block by block. `keep_parts=False` keeps only the
        fused probabilities, a quarter of MCP's memory. `sources` says who sent each image, for a guard's quota and for
        `forget`. `progress` is called with the number of images done.
        """
        arguments.whole("block", block, least=1)
        arguments.switch("keep_parts", keep_parts)
        arguments.callback("progress", progress)
        rows, images = self._checked(features)
        numbers = source_numbers(sources, images)
        names = self.method.parts if keep_parts else ()
        parts: dict[str, Array] = {name: np.empty((images, self.task.classes), np.float32) for name in names}
        probabilities: Array = np.empty((images, self.task.classes), np.float32)
        unknown: Array = np.zeros(images, np.float32)
        done = 0
        head = STRETCH - self.seen % STRETCH  # blocks end where the stream takes stock
        for views in self._given.blocks(rows, self._size, block, min(head, block)):
            with self._turn, HoldInterrupts() as interrupts:
                for some_parts, fused, doubts in self._walk(views, numbers[done : done + len(views)]):
                    taken = slice(done, done + len(fused))
                    for name in names:
                        parts[name][taken] = some_parts[name]
                    if len(fused) == images:
                        probabilities = fused  # as it is: fresh memory costs as much as a sum over the classes
                    else:
                        probabilities[taken] = fused
                    unknown[taken] = doubts
                    done = taken.stop
                    interrupts.arrive()
            if progress:
                progress(done)
        return Predictions(parts, probabilities, probabilities.argmax(axis=1), unknown)

    def _checked(self, features: inputs.FeatureRows | ArrayLike) -> tuple[Any, int]:
        """Features that can be sliced, all of which can be taken in, and of how many images they are.

        The whole input is looked at before the first image is written.
        """
        rows = inputs.stream_rows(features)
        images, _ = self._given.stream_shape(rows, self._size)
        self._given.refuse_bad_rows(rows, self._size)
        return rows, images

    def health(self) -> HealthReport:
        """What the stream has noticed of itself, over its last images and without labels."""
        if self.watch is None and self.guard is not None:
            raise TrimtabError(f"{self.method.name} keeps nothing of the images, so its guard has nothing to watch.")
        if self.watch is None:
            raise TrimtabError("Only a stream with a guard watches itself; start it with guard=Guard().")
        with self._turn:
            return self.watch.report(self.seen, self.state.banks())

    def arrays(self) -> Arrays:
        """Every array that makes up what was learned, by name; the live ones, not copies."""
        found: Arrays = {"seen": self._seen, **self._learned_arrays()}
        if self.watch is not None:
            found |= {f"guard.{name}": array for name, array in self.watch.arrays().items()}
        if self.good is not None:
            found |= {f"good.{name}": array for name, array in self.good.arrays().items()}
        return found

    def copy(self) -> "Stream":
        """An independent stream that has learned the same: a snapshot to go back to."""
        other = Stream(self.method, self.task, self.guard)
        with self._turn:
            self._refuse_half_learned()
            other._take(self.arrays(), self.note)
        return other

    def _take(self, arrays: Arrays, note: dict[str, Any]) -> None:
        """Have learned what another stream of the same kind has."""
        hold_like(self.state, arrays)
        fill(self.arrays(), arrays)
        self.note = deepcopy(note)

    __copy__ = copy

    def __deepcopy__(self, _: object) -> "Stream":
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        with self._turn:
            self._refuse_half_learned()
            arrays = {name: array.copy() for name, array in self.arrays().items()}
            made = {"method": self.method, "task": self.task, "guard": self.guard}
            return {"made": made, "arrays": arrays, "note": deepcopy(self.note)}

    def __setstate__(self, found: dict[str, Any]) -> None:
        self.__init__(**found["made"])  # type: ignore[misc]
        self._take(found["arrays"], found["note"])

    def fusion_report(self) -> dict[str, Any]:
        """How the parts are being weighed; and as `level`, of a method that levels names, how far it does: 0 to 0.5."""
        return {**self.fusion.report(), **self.state.report()}

    def save(self, path: str | Path) -> None:
        """Write what was learned to a file; an older file stays whole if anything goes wrong."""
        file, method, task = arguments.place("path", path), self.method, self.task
        names, parameters = list(task.class_names), method.parameters()
        guard = None if self.guard is None else self.guard.parameters()
        arguments.facts("note", self.note)
        with self._turn:
            self._refuse_half_learned()
            learned = self.seen, self.arrays(), self.note
            write_state(file, SavedState(method.name, parameters, names, task.fingerprint, *learned, guard))

    @classmethod
    def load(cls, path: str | Path, task: Task, method: Steps | None = None) -> "Stream":
        """A stream that continues where the saved one stopped, bit for bit.

        A state of an older format, 2 or later, loads, too; what it lacks begins anew. The task must be the one it was
        saved with. `method` is needed only for a method that trimtab does not know.
        """
        file = arguments.place("path", path)
        saved = read_state(file)
        check_task(file, saved, arguments.instance("task", task, Task, "a trimtab.Task"))
        if method is None:
            method = make_method(saved.method, **saved.parameters)
        else:
            arguments.instance("method", method, Steps, "a method such as MCP()")
            check_method(file, saved, method.name, method.parameters())
        stream = cls(method, task, None if saved.guard is None else make_guard(file, saved.guard))
        arrays = completed(saved, task, stream.arrays())
        if arrays.keys() == stream.arrays().keys():
            hold_like(stream.state, arrays)
        live = stream.arrays()
        if {n: (a.shape, a.dtype) for n, a in live.items()} != {n: (a.shape, a.dtype) for n, a in arrays.items()}:
            raise TrimtabError(f"{path} does not hold the arrays that {method.name} keeps; save the state again.")
        fill(live, arrays)
        if not all(bank.is_sound() for bank in stream.state.banks()):
            raise TrimtabError(f"{path} names items that it does not hold; save the state again.")
        stream.note = saved.note
        return stream
