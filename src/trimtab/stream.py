"""Stream: a method at work on a task. This is what users hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.engine import inputs, pixels
from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.block import Block, Image
from trimtab.engine.moving_text import RunningText
from trimtab.engine.state import fill
from trimtab.engine.state_io import SavedState, check_task, read_state, write_state
from trimtab.engine.wide import hold_like
from trimtab.errors import TrimtabError
from trimtab.fusion.weights import Fusion
from trimtab.interrupts import HoldInterrupts
from trimtab.notebook import prediction_html, predictions_html, stream_html
from trimtab.registry import make_method
from trimtab.task import Task

BLOCK = 64  # images per matrix product; more gains little and waits longer


@runtime_checkable
class Steps(Protocol):
    """What a stream asks of a method. `trimtab.methods.base.Method` has it, but name, parts and verbs."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    needs: ClassVar[frozenset[str]]

    def new_state(self, task: Task) -> Any:
        """What the method knows before the first image."""

    def step(self, image: Image, state: Any) -> dict[str, Array]:
        """Take in an image and predict it, in the method's order."""

    def walk(self, block: Block, state: Any) -> dict[str, Array] | None:
        """Step through a block at once, if there is a faster way than one image at a time: parts (B, C)."""

    def predict(self, image: Image, state: Any) -> dict[str, Array]:
        """Predict an image; nothing is written."""

    def look(self, task: Task, views: Array, first: int, text: Array | None) -> Block:
        """A block of images as the text sees them."""

    def moving_text(self, state: Any) -> RunningText | None:
        """The text, if the method moves it along the stream."""

    def new_fusion(self, task: Task) -> Fusion:
        """What makes one prediction of the parts."""

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of one image: part name -> (C,), the fused probabilities (C,), and the best class."""

    parts: dict[str, Array]
    probabilities: Array
    label: int

    def _repr_html_(self) -> str:
        return prediction_html(self)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a method says of N images: part name -> (N, C), fused probabilities (N, C), and best classes (N,)."""

    parts: dict[str, Array]
    probabilities: Array
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        return predictions_html(self)


class Stream:
    """A method, a task and what has been learned so far.

    `step` takes one image, `run` many: the same numbers, much faster. Images are taken in as they come; `predict` looks
    without learning. `save` and `load` keep what was learned, `copy` is a snapshot to go back to, `reset` forgets.

    An image is taken in wholly or not at all: Ctrl-C waits until the image at hand is done, and `seen` says how many
    are. Should anything else break off a step (memory that runs out, an error in a method of your own), the stream says
    so from then on instead of predicting from, or saving, something half learned.

    `note` is yours: facts that JSON can hold, saved with what was learned and there again after `load`.
    """

    def __init__(self, method: Steps, task: Task) -> None:
        self.method = arguments.instance("method", method, Steps, "a method such as MCP()")
        self.task = arguments.instance("task", task, Task, "a trimtab.Task")
        self._given, self._size = _inputs_of(method, task)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the stream is as new."""
        self.state: Any = self.method.new_state(self.task)
        self.fusion = self.method.new_fusion(self.task)
        self._seen = np.zeros(1, np.int64)
        self._whole = True  # False while an image is being taken in
        self.note: dict[str, Any] = {}

    @property
    def seen(self) -> int:
        """How many images the stream has taken in."""
        return int(self._seen[0])

    def _repr_html_(self) -> str:
        return stream_html(self)

    def step(self, views: ArrayLike) -> Prediction:
        """Take in one image, (V, d) or (d,), and predict it."""
        image = self._given.one_image(views, self._size)
        with HoldInterrupts():
            return _first(self._walk(image))

    def predict(self, views: ArrayLike) -> Prediction:
        """Predict one image, (V, d) or (d,), without taking it in: nothing is written."""
        return _first(self._walk(self._given.one_image(views, self._size), learn=False))

    def run(
        self,
        features: inputs.FeatureRows | ArrayLike,
        *,
        block: int = BLOCK,
        keep_parts: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Take in N images, (N, V, d) or (N, d), and predict each: the same as N steps.

        `features` may be a memory map or a feature store; it is read block by block. `keep_parts=False` keeps only the
        fused probabilities, a quarter of MCP's memory. `progress` is called with the number of images done.
        """
        rows = inputs.stream_rows(features)
        arguments.switch("keep_parts", keep_parts)
        arguments.callback("progress", progress)
        images, _ = self._given.stream_shape(rows, self._size)
        self._given.refuse_bad_rows(rows, self._size)  # before the first image is written
        names = self.method.parts if keep_parts else ()
        parts: dict[str, Array] = {name: np.empty((images, self.task.classes), np.float32) for name in names}
        probabilities: Array = np.empty((images, self.task.classes), np.float32)
        done = 0
        for views in self._given.blocks(rows, self._size, block):
            with HoldInterrupts() as interrupts:
                for some_parts, fused in self._walk(views):
                    taken = slice(done, done + len(fused))
                    for name in names:
                        parts[name][taken] = some_parts[name]
                    probabilities[taken] = fused
                    done = taken.stop
                    interrupts.arrive()
            if progress:
                progress(done)
        return Predictions(parts, probabilities, probabilities.argmax(axis=1))

    def _walk(self, views: Array, learn: bool = True) -> Iterator[tuple[dict[str, Array], Array]]:
        """Yield parts (n, C) and their fusion: of a block where the method can walk one, else of an image at a time."""
        self._refuse_half_learned()
        for block in self._blocks(views):
            self.state.open(block)
            if not learn:
                for image in block:
                    parts = self.method.predict(image, self.state)
                    yield _rows(parts), self.fusion.combine(parts)[None]
                continue
            self._whole = False
            walked = self.method.walk(block, self.state)
            if walked is not None:
                fused = self.fusion.walk(walked)
                self._seen += len(block)
                self._whole = True
                yield walked, fused
                continue
            for image in block:
                self._whole = False
                parts = self.method.step(image, self.state)
                answer = self.fusion.step(parts)
                self._seen += 1
                self._whole = True
                yield _rows(parts), answer[None]

    def _refuse_half_learned(self) -> None:
        if not self._whole:
            raise TrimtabError(
                f"Taking in image {self.seen} was broken off, so what this stream has learned is not whole; "
                "reset it, or load it from where it was saved."
            )

    def _blocks(self, views: Array) -> Iterator[Block]:
        """The images as the text sees them: all together, or one at a time where each may move the text."""
        text = self.method.moving_text(self.state)
        if text is None:
            yield self.method.look(self.task, views, self.seen, None)
            return
        for row in range(len(views)):
            yield self.method.look(self.task, views[row : row + 1], self.seen, text.units)

    def arrays(self) -> Arrays:
        """Every array that makes up what was learned, by name; the live ones, not copies."""
        found: Arrays = {"seen": self._seen}
        found.update({f"state.{name}": array for name, array in self.state.arrays().items()})
        found.update({f"fusion.{name}": array for name, array in self.fusion.arrays().items()})
        return found

    def copy(self) -> "Stream":
        """An independent stream that has learned the same: a snapshot to go back to."""
        self._refuse_half_learned()
        other = Stream(self.method, self.task)
        hold_like(other.state, self.arrays())
        fill(other.arrays(), self.arrays())
        other.note = self.note.copy()
        return other

    def fusion_report(self) -> dict[str, Any]:
        """How the parts are being weighed."""
        return self.fusion.report()

    def save(self, path: str | Path) -> None:
        """Write what was learned to a file; an older file stays whole if anything goes wrong."""
        self._refuse_half_learned()
        method, task = self.method, self.task
        names, parameters = list(task.class_names), method.parameters()
        saved = SavedState(method.name, parameters, names, task.fingerprint, self.seen, self.arrays(), self.note)
        write_state(arguments.place("path", path), saved)

    @classmethod
    def load(cls, path: str | Path, task: Task, method: Steps | None = None) -> "Stream":
        """A stream that continues where the saved one stopped, bit for bit.

        The task must be the one it was saved with. `method` is needed only for a method that trimtab does not know.
        """
        file = arguments.place("path", path)
        saved = read_state(file)
        check_task(file, saved, arguments.instance("task", task, Task, "a trimtab.Task"))
        if method is not None:
            arguments.instance("method", method, Steps, "a method such as MCP()")
        if method is None:
            method = make_method(saved.method, **saved.parameters)
        elif (method.name, method.parameters()) != (
            saved.method,
            saved.parameters,
        ):
            raise TrimtabError(
                f"{path} was saved by {saved.method} with {saved.parameters}, "
                f"not by {method.name} with {method.parameters()}."
            )
        stream = cls(method, task)
        if saved.arrays.keys() == stream.arrays().keys():
            hold_like(stream.state, saved.arrays)
        live = stream.arrays()
        if {n: (a.shape, a.dtype) for n, a in live.items()} != {n: (a.shape, a.dtype) for n, a in saved.arrays.items()}:
            raise TrimtabError(f"{path} does not hold the arrays that {method.name} keeps; save the state again.")
        fill(live, saved.arrays)
        stream.note = saved.note
        return stream


class _Inputs(Protocol):
    """What comes into a stream, checked: `engine.inputs` for features, `engine.pixels` for pixels."""

    def one_image(self, views: ArrayLike, size: int) -> Any:
        """(1, V, ...)."""

    def stream_shape(self, features: Any, size: int) -> tuple[int, int]:
        """(images, views)."""

    def refuse_bad_rows(self, features: Any, size: int) -> None:
        """Before the first image is written."""

    def blocks(self, features: Any, size: int, at_once: int, /) -> Iterator[Any]:
        """The stream, some images at a time."""


def _inputs_of(method: Steps, task: Task) -> tuple[_Inputs, int]:
    """How the method's images come, and the size that they must have: a dimension, or the side of a picture."""
    if "pixels" not in method.needs:
        return inputs, task.dim
    if task.image_prompts is None:
        raise TrimtabError(
            f"{method.name} tunes prompts inside the image tower, so it needs images and an encoder "
            "maple:<file>+<encoder>; features are not enough."
        )
    return pixels, task.image_prompts.input_size


def _rows(parts: dict[str, Array]) -> dict[str, Array]:
    """One image's parts as those of a block of one."""
    return {name: part[None] for name, part in parts.items()}


def _first(walk: Iterator[tuple[dict[str, Array], Array]]) -> Prediction:
    parts, fused = next(walk)
    return Prediction({name: part[0].copy() for name, part in parts.items()}, fused[0], int(fused[0].argmax()))
