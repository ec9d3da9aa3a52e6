"""Stream: a method at work on a task. This is what users hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.engine import inputs
from trimtab.engine.block import Block
from trimtab.engine.equations import Array
from trimtab.engine.state import Arrays, fill
from trimtab.task import Task

if TYPE_CHECKING:
    from trimtab.methods.base import Method

BLOCK = 64  # images per matrix product; more gains little and waits longer


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of one image: part name -> (C,), the fused probabilities (C,), and the best class."""

    parts: dict[str, Array]
    probabilities: Array
    label: int


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a method says of N images: part name -> (N, C), fused probabilities (N, C), and best classes (N,)."""

    parts: dict[str, Array]
    probabilities: Array
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


class Stream:
    """A method, a task and what has been learned so far.

    `step` takes one image, `run` many: the same numbers, much faster. Images are taken in as they come; `predict` looks
    without learning. `save` and `load` keep what was learned, `copy` is a snapshot to go back to, `reset` forgets.
    """

    def __init__(self, method: "Method", task: Task) -> None:
        self.method = method
        self.task = task
        self.reset()

    def reset(self) -> None:
        """Forget everything: the stream is as new."""
        self.state: Any = self.method.new_state(self.task)
        self.fusion = self.method.new_fusion(self.task)
        self._seen = np.zeros(1, np.int64)

    @property
    def seen(self) -> int:
        """How many images the stream has taken in."""
        return int(self._seen[0])

    def step(self, views: ArrayLike) -> Prediction:
        """Take in one image, (V, d) or (d,), and predict it."""
        return _first(self._walk(inputs.one_image(views, self.task.dim)))

    def predict(self, views: ArrayLike) -> Prediction:
        """Predict one image, (V, d) or (d,), without taking it in: nothing is written."""
        return _first(self._walk(inputs.one_image(views, self.task.dim), learn=False))

    def run(
        self,
        features: "inputs.FeatureRows | ArrayLike",
        *,
        block: int = BLOCK,
        keep_parts: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Take in N images, (N, V, d) or (N, d), and predict each: the same as N steps.

        `features` may be a memory map or a feature store; it is read block by block. `keep_parts=False` keeps only the
        fused probabilities, a quarter of MCP's memory. `progress` is called with the number of images done.
        """
        rows = features if hasattr(features, "shape") else np.asarray(features)
        images, _ = inputs.stream_shape(rows, self.task.dim)  # type: ignore[arg-type]
        for _ in inputs.blocks(rows, self.task.dim, 1024):  # type: ignore[arg-type]
            pass  # refuse bad rows before the first image is written
        names = self.method.parts if keep_parts else ()
        parts: dict[str, Array] = {name: np.empty((images, self.task.classes), np.float32) for name in names}
        probabilities: Array = np.empty((images, self.task.classes), np.float32)
        done = 0
        for views in inputs.blocks(rows, self.task.dim, block):  # type: ignore[arg-type]
            for image_parts, fused in self._walk(views):
                for name in names:
                    parts[name][done] = image_parts[name]
                probabilities[done] = fused
                done += 1
            if progress:
                progress(done)
        return Predictions(parts, probabilities, probabilities.argmax(axis=1))

    def _walk(self, views: Array, learn: bool = True) -> Iterator[tuple[dict[str, Array], Array]]:
        """Yield each image's parts and their fusion, one after the other."""
        block: Block = self.method.look(self.task, views, self.seen)
        self.state.open(block)
        for image in block:
            if learn and self.method.writes_first:
                self.method.observe(image, self.state)
            parts = self.method.predict(image, self.state)
            fused = self.fusion.combine(parts)
            if learn:
                self.fusion.observe(parts)
                if not self.method.writes_first:
                    self.method.observe(image, self.state)
                self._seen += 1
            yield parts, fused

    def arrays(self) -> Arrays:
        """Every array that makes up what was learned, by name; the live ones, not copies."""
        found: Arrays = {"seen": self._seen}
        found.update({f"state.{name}": array for name, array in self.state.arrays().items()})
        found.update({f"fusion.{name}": array for name, array in self.fusion.arrays().items()})
        return found

    def copy(self) -> "Stream":
        """An independent stream that has learned the same: a snapshot to go back to."""
        other = Stream(self.method, self.task)
        fill(other.arrays(), self.arrays())
        return other

    def fusion_report(self) -> dict[str, Any]:
        """How the parts are being weighed."""
        return self.fusion.report()

    def save(self, path: str | Path) -> None:
        """Write what was learned to a file; an older file stays whole if anything goes wrong."""
        from trimtab.engine import state_io

        state_io.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, task: Task, method: "Method | None" = None) -> "Stream":
        """A stream that goes on where the saved one stopped, bit for bit.

        The task must be the one it was saved with. `method` is needed only for a method that trimtab does not know.
        """
        from trimtab.engine import state_io

        return state_io.load(Path(path), task, method)


def _first(walk: Iterator[tuple[dict[str, Array], Array]]) -> Prediction:
    parts, fused = next(walk)
    return Prediction({name: part.copy() for name, part in parts.items()}, fused, int(fused.argmax()))
