"""DMN-ZS: a dynamic memory of test images, read by attention; the zero-shot form of dual memory networks.

Paper: Zhang, Zhu, Tang, Ma, Zhou, Zhang, "Dual Memory Networks: A Versatile Adaptation Approach for Vision-Language
Models", CVPR 2024.

| paper          | here                                                                                        |
|----------------|---------------------------------------------------------------------------------------------|
| dynamic memory | section "memory": per class the plain views of lowest entropy, by the confident views' vote |
| read-out       | part "dynamic": the cosine with a class's memory and text, weighted by likeness to the image |
| beta_1, beta_2 | `fusion` over the parts text, dynamic (the released program searches it on the test labels) |

The static memory needs labeled images and has no place in the zero-shot form. The memory keeps and is asked with the
plain view; the other views only vote on its class and entropy. A class without memory reads out its text prototype.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image
from trimtab.engine.compiled import njit
from trimtab.engine.equations import softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import number, slots
from trimtab.engine.readouts import RetrievalCosines
from trimtab.engine.state import State
from trimtab.engine.tables import ReadOuts, Slots, Visit
from trimtab.fusion import FusionChoice, fusion_choice
from trimtab.methods.base import CacheMethod, WeighedMethod
from trimtab.methods.facts import CACHE, EVERYDAY, RENDITIONS, SPECIFIC_TEMPLATES, MethodInfo, Released, Templates
from trimtab.task import Task

# The weight of the dynamic part that the released program found on each set's TEST LABELS.
SEARCHED_WEIGHTS = {
    "imagenet": 1.0,
    "imagenet-a": 3.0,
    "imagenet-v2": 1.0,
    "imagenet-r": 0.3,
    "imagenet-sketch": 1.0,
    "caltech101": 0.3,
    "dtd": 10.0,
    "eurosat": 0.3,
    "fgvc-aircraft": 1.0,
    "food101": 0.3,
    "flowers102": 10.0,
    "oxford-pets": 1.0,
    "stanford-cars": 0.3,
    "sun397": 3.0,
    "ucf101": 0.3,
}


@dataclass
class DMNState(State):
    """Slot 0 holds the text prototype, then comes the memory."""

    bank: Bank  # (C, 1 + memory_slots) slots
    retrieved: RetrievalCosines  # <f, r_c>


@dataclass(frozen=True, kw_only=True)
class DMN(CacheMethod, WeighedMethod):
    """Dual memory networks without labeled images."""

    name: ClassVar[str] = "dmn"
    parts: ClassVar[tuple[str, ...]] = ("text", "dynamic")
    info: ClassVar[MethodInfo] = MethodInfo(
        title="DMN-ZS",
        paper="Dual Memory Networks",
        year=2024,
        venue="CVPR",
        keeps="a memory",
        traits=CACHE,
        look=("#E69F00", "^", "-"),
    )
    released_values: ClassVar[Released] = {name: {"fusion": (1.0, found)} for name, found in SEARCHED_WEIGHTS.items()}
    templates: ClassVar[Templates] = {
        **SPECIFIC_TEMPLATES,
        **dict.fromkeys((*RENDITIONS, *EVERYDAY), "imagenet7"),
        "stanford-cars": "car",
    }

    memory_slots: int = slots(50, symbol="L", about="Images per class in the memory: those of lowest entropy.")
    retrieval_beta: float = number(
        5.5, least=0, symbol="beta", about="How strongly the read-out prefers the items nearest to the image."
    )
    fusion: FusionChoice = fusion_choice(
        (1.0, 1.0),
        symbol="beta_1, beta_2",
        about="Weights of the parts text and dynamic, or 'auto'. The released program searches them on test labels.",
    )

    def new_state(self, task: Task) -> DMNState:
        """An empty memory beside the text prototypes."""
        bank = Bank(task.classes, task.dim, {"memory": self.memory_slots}, anchors=task.text_prototypes)
        return DMNState(bank, RetrievalCosines(bank, slice(0, bank.sections["memory"].stop), self.retrieval_beta))

    def observe(self, image: Image, state: DMNState) -> None:
        """Offer the plain view to the memory of the class that the confident views vote for."""
        state.bank.offer("memory", image.vote_label, image, image.vote_entropy)

    def predict(self, image: Image, state: DMNState) -> dict[str, Array]:
        """What the text says of the plain view, and what the memory says."""
        retrieved = image.logit_scale * state.retrieved.at(image)
        return {"text": image.probabilities, "dynamic": softmax(retrieved)}

    def walk(self, block: Block, state: DMNState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """A block at once: all writes first, then the parts from what each image found."""
        if not self.writes_first:
            return None
        state.open(block)
        span = state.bank.sections["memory"]
        state.bank.walk(_walk, learned, span.start, span.stop, block.vote_labels, block.vote_entropies)
        retrieved = block.logit_scales[:, None] * state.retrieved.of_block()
        return {"text": block.probabilities, "dynamic": softmax(retrieved)}

    def operations(self, size: Size) -> float:
        """Every view against every text, the image against the memory, and the norms of what is read out."""
        items = self.memory_slots
        return size.products(size.views, size.classes) + size.products(1, size.classes * items) + size.norms(items + 1)


@njit(nogil=True)
def _walk(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    start: int,
    stop: int,
    labels: NDArray[np.intp],
    entropies: Array,
) -> None:
    """`DMN.observe` for each image of a block."""
    for row in range(len(labels)):
        door.offer(bank, readouts, visit, start, stop, labels[row], row, entropies[row], bank.queries[row])
        if not visit.learned[row]:
            door.take_back(bank, readouts, visit, row)
