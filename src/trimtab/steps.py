"""What a stream asks of a method."""

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.moving_text import RunningText
from trimtab.fusion.weights import Fusion
from trimtab.task import Task


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

    def walk(self, block: Block, state: Any, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """Open a block and step through it at once, if there is a faster way than one image at a time: parts (B, C).

        Images that are not `learned` (B,) from are answered all the same.
        """

    def foretell(self, image: Image, state: Any) -> dict[str, Array]:
        """What `step` would answer; it may write, and the stream puts the state back."""

    def predict(self, image: Image, state: Any) -> dict[str, Array]:
        """Predict an image; nothing is written."""

    def look(self, task: Task, views: Array, first: int, text: Array | None) -> Block:
        """A block of images as the text sees them."""

    def items_left(self, state: Any) -> None:
        """Items were taken out of the state's banks: make what depends on them true."""

    def moving_text(self, state: Any) -> RunningText | None:
        """The text, if the method moves it along the stream."""

    def new_fusion(self, task: Task) -> Fusion:
        """What makes one prediction of the parts."""

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
