"""Zero-shot classification: the frozen model, against which everything is measured.

Paper: Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021.
One part, `text` = softmax(s f T') of the plain view. Nothing is kept.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.operations import Size
from trimtab.engine.state import Nothing
from trimtab.methods.base import Method
from trimtab.methods.facts import MethodInfo
from trimtab.task import Task


@dataclass(frozen=True, kw_only=True)
class ZeroShot(Method):
    """The plain view against the text prototypes; no adaptation."""

    name: ClassVar[str] = "zero_shot"
    parts: ClassVar[tuple[str, ...]] = ("text",)
    info: ClassVar[MethodInfo] = MethodInfo(
        title="Zero-shot",
        paper="CLIP",
        year=2021,
        venue="ICML",
        keeps="nothing",
        views="one",
        look=("#000000", "s", "--"),
    )

    def new_state(self, task: Task) -> Nothing:  # noqa: ARG002
        """Nothing."""
        return Nothing()

    def observe(self, image: Image, state: Nothing) -> None:
        """Nothing is kept."""

    def predict(self, image: Image, state: Nothing) -> dict[str, Array]:  # noqa: ARG002
        """The plain view's probabilities."""
        return {"text": image.probabilities}

    def walk(self, block: Block, state: Nothing, learned: NDArray[np.bool_]) -> dict[str, Array]:  # noqa: ARG002
        """A block at once."""
        return {"text": block.probabilities}

    def operations(self, size: Size) -> float:
        """One image against every text."""
        return size.products(1, size.classes)
