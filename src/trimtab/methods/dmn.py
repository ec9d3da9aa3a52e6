"""DMN-ZS: a dynamic memory of test images, read by attention; the zero-shot form of dual memory networks.

Paper: Zhang, Zhu, Tang, Ma, Zhou, Zhang, "Dual Memory Networks: A Versatile Adaptation Approach for Vision-Language
Models", CVPR 2024.

| paper          | here                                                                                        |
|----------------|---------------------------------------------------------------------------------------------|
| dynamic memory | section "memory": per class the plain views of lowest entropy, by the confident views' vote |
| read-out       | part "dynamic": the cosine with a class's memory and text, weighted by likeness to the image |
| beta_1, beta_2 | `fusion` over the parts text, dynamic (the released program searches it on the test labels) |

The static memory needs labelled images and has no place in the zero-shot form. The memory keeps and is asked with the
plain view; the other views only vote on its class and entropy. A class without memory reads out its text prototype.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.bank import Bank
from trimtab.engine.block import Image
from trimtab.engine.equations import Array, softmax
from trimtab.engine.parameters import number, slots
from trimtab.engine.readouts import RetrievalCosines
from trimtab.engine.state import State
from trimtab.fusion import FixedWeights
from trimtab.methods.base import CacheMethod
from trimtab.task import Task


@dataclass
class DMNState(State):
    """Slot 0 holds the text prototype, then comes the memory."""

    bank: Bank  # (C, 1 + memory_slots) slots
    retrieved: RetrievalCosines  # <f, r_c>


@dataclass(frozen=True, kw_only=True)
class DMN(CacheMethod):
    """Dual memory networks without labelled images."""

    name: ClassVar[str] = "dmn"
    parts: ClassVar[tuple[str, ...]] = ("text", "dynamic")

    memory_slots: int = slots(50)
    retrieval_beta: float = number(5.5, least=0)
    fusion: tuple[float, ...] = (1.0, 1.0)

    def new_fusion(self, task: Task) -> FixedWeights:  # noqa: ARG002
        """beta_1, beta_2 of the paper."""
        return FixedWeights(self.parts, self.fusion)

    def new_state(self, task: Task) -> DMNState:
        """An empty memory beside the text prototypes."""
        bank = Bank(task.classes, task.dim, {"memory": self.memory_slots}, anchors=task.text_prototypes)
        return DMNState(bank, RetrievalCosines(bank, slice(0, bank.sections["memory"].stop), self.retrieval_beta))

    def observe(self, image: Image, state: DMNState) -> None:
        """Offer the plain view to the memory of the class that the confident views vote for."""
        state.bank.offer("memory", image.vote_label, image, image.vote_entropy)

    def predict(self, image: Image, state: DMNState) -> dict[str, Array]:
        """What the text says of the plain view, and what the memory says."""
        retrieved = np.float32(image.block.task.logit_scale) * state.retrieved.at(image)
        return {"text": image.probabilities, "dynamic": softmax(retrieved)}
