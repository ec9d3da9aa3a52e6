"""MCP: three caches, two kinds of prototype, three parts of a prediction.

Paper: Chen, Zhai, Zhang, Shi, Li, "Multi-Cache Enhanced Prototype Learning for Test-Time Generalization of
Vision-Language Models", ICCV 2025. Equation numbers are the paper's order of appearance.

| paper          | here                                                                          |
|----------------|-------------------------------------------------------------------------------|
| t_c, v_c, mu_c | text prototype, visual prototype (mean of a class's items), prototype centre  |
| M_entropy      | section "entropy" of the bank: items of lowest entropy                        |
| M_align        | section "align": items of low entropy that are nearer to the centre           |
| Q_n, L_n       | section "negative": uncertain items, and the classes they speak against       |
| A(x), w        | `affinity` with positive_alpha and positive_beta, `center_weight`             |
| alpha_1..3     | `fusion` over the parts text, prototype, retrieval                            |

Where the paper leaves room we do as the authors' released program does: the entropy cache is keyed by
the plain view and the align cache by the vote of the confident views; v_c is a plain mean, not normalised; retrieval
includes the text prototype; given weights sum probabilities, not logits. One difference: an item that the reflecting
mechanism promotes is visible at once, as the paper's text says; in the released program only when its class is next
written.

What the authors set per data set or search on the test labels has a default that needs neither: `positive_alpha` and
`fusion` are "auto", found from the stream (docs/weights-without-labels.md). Numbers give the paper's formulas.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.equations import Array, affinity, entropy, normalised_entropy, softmax
from trimtab.engine.parameters import choice, number, number_or_auto, slots, switch
from trimtab.engine.readouts import AffinitySums, MeanProducts, NegativePenalties, RetrievalCosines
from trimtab.engine.state import State
from trimtab.fusion.strength import PrototypeStrength
from trimtab.methods.weighed import WeighedMethod
from trimtab.task import Task

USUAL_ALPHA = 3.0  # the middle of the authors' values, for the reflecting mechanism when positive_alpha is "auto"


@dataclass
class MCPState(State):
    """Slot 0 of the bank holds the text prototype, then come the entropy, align and negative caches."""

    bank: Bank  # (C, 1 + entropy_slots + align_slots + negative_slots) slots
    visual: MeanProducts  # <f, v_c>
    reflected: AffinitySums  # what the entropy cache alone says, for the reflecting mechanism
    retrieved: RetrievalCosines  # <f, r_c>
    penalties: NegativePenalties  # what the negative cache says against each class
    strength: PrototypeStrength  # how strongly <f, v_c> speaks, unless positive_alpha is a number


@dataclass(frozen=True, kw_only=True)
class MCP(WeighedMethod):
    """Multi-cache enhanced prototypes. Defaults are the paper's, where it states one."""

    name: ClassVar[str] = "mcp"
    parts: ClassVar[tuple[str, ...]] = ("text", "prototype", "retrieval")

    entropy_slots: int = slots(10)
    align_slots: int = slots(10)
    negative_slots: int = slots(3)
    positive_alpha: float | str = number_or_auto("auto", least=0)
    positive_beta: float = number(8.0, least=0)
    negative_alpha: float = number(0.117, least=0)
    negative_beta: float = number(1.0, least=0)
    entropy_low: float = number(0.2, least=0)
    entropy_high: float = number(0.5, least=0)
    mask_low: float = number(0.03, least=0, most=1)
    mask_high: float = number(1.0, least=0)
    center_weight: float = number(0.8, least=0, most=1)
    retrieval_beta: float = number(5.5, least=0)
    promotion: bool = switch(True)
    query: Query = choice("plain", ("plain", "confident_mean"))

    def look(self, task: Task, views: Array, first: int) -> Block:
        """A block of images as the text sees them."""
        return Block(task, views, first, self.view_fraction, self.query)

    def new_state(self, task: Task) -> MCPState:
        """Empty caches beside the text prototypes."""
        sections = {"entropy": self.entropy_slots, "align": self.align_slots, "negative": self.negative_slots}
        bank = Bank(task.classes, task.dim, sections, anchors=task.text_prototypes)
        align_end = bank.sections["align"].stop
        return MCPState(
            bank=bank,
            visual=MeanProducts(bank, slice(1, align_end)),
            reflected=AffinitySums(bank, bank.sections["entropy"], self._reflecting_alpha, self.positive_beta),
            retrieved=RetrievalCosines(bank, slice(0, align_end), self.retrieval_beta),
            penalties=NegativePenalties(
                bank,
                bank.sections["negative"],
                self.negative_alpha,
                self.negative_beta,
                self.mask_low,
                self.mask_high,
            ),
            strength=PrototypeStrength(),
        )

    def observe(self, image: Image, state: MCPState) -> None:
        """Offer the image to the entropy cache, the align cache and, if it is uncertain, to the negative cache."""
        # The align test uses the visual prototype as it was before this image, so it comes before any write.
        align_slot = self._align_slot(image, state)
        state.bank.offer("entropy", image.label, image, image.entropy)
        if align_slot is not None:
            plain = None if self.query == "plain" else image.plain  # the align cache always holds plain views
            state.bank.write(image.vote_label, align_slot, image, image.vote_entropy, plain)
        if self._is_uncertain(image.entropy, image):
            self._reflect(image, state)
        if self.positive_alpha == "auto":
            state.strength.learn(image, state.visual.at(image), state.visual.present)

    def predict(self, image: Image, state: MCPState) -> dict[str, Array]:
        """The three parts: what the text says, what the prototypes say, what the retrieved items say."""
        support = self._prototype_support(state.visual.at(image), state)
        retrieved = np.float32(image.block.task.logit_scale) * state.retrieved.at(image)
        return {
            "text": image.vote,
            "prototype": softmax(image.logits + support - state.penalties.at(image)),  # Eq. 4
            "retrieval": softmax(retrieved),  # Eq. 3
        }

    @property
    def _reflecting_alpha(self) -> float:
        return float(USUAL_ALPHA if self.positive_alpha == "auto" else self.positive_alpha)

    def _prototype_support(self, cosines: Array, state: MCPState) -> Array:
        """What the visual prototypes add to the text's logits. # Eq. 4, left"""
        holds_items = state.visual.present
        if self.positive_alpha == "auto":
            return state.strength.support(cosines, holds_items)
        return affinity(cosines, float(self.positive_alpha), self.positive_beta) * holds_items

    def _align_slot(self, image: Image, state: MCPState) -> int | None:
        """Where the align cache would take the image: it must be more certain than the least certain item of its class,
        and nearer to the class's centre mu = w v + (1 - w) t.
        """
        bank, label = state.bank, image.vote_label
        slot = bank.slot_for_lower("align", label, image.vote_entropy)
        if slot is None or not bank.occupied[label, slot]:
            return slot
        arriving = bank.features[label] @ image.plain
        leaving = bank.gram[label, slot]
        # Squared distances to the centre, less |mu|^2, which both share.
        arriving_distance = float(image.plain @ image.plain) - 2 * self._with_centre(arriving, label, bank)
        leaving_distance = float(leaving[slot]) - 2 * self._with_centre(leaving, label, bank)
        return slot if arriving_distance < leaving_distance else None

    def _with_centre(self, products: Array, label: int, bank: Bank) -> float:
        """<x, mu> from the products of x with the slots of a class that holds something. # Eq. 2"""
        items = slice(1, bank.sections["align"].stop)
        occupied = bank.occupied[label, items]
        with_visual = float(products[items] @ occupied) / float(occupied.sum())
        return self.center_weight * with_visual + (1 - self.center_weight) * float(products[0])

    def _is_uncertain(self, entropy_in_nats: float, image: Image) -> bool:
        return self.entropy_low < normalised_entropy(entropy_in_nats, len(image.logits)) < self.entropy_high

    def _reflect(self, image: Image, state: MCPState) -> None:
        """The reflecting mechanism: ask the entropy cache again before trusting an uncertain image as a negative."""
        probabilities = softmax(image.logits + state.reflected.at(image))
        label, calibrated = int(probabilities.argmax()), float(entropy(probabilities))
        if self._is_uncertain(calibrated, image):
            slot = state.bank.slot_for_lower("negative", label, calibrated)
            if slot is not None:
                state.penalties.write(label, slot, image, calibrated, probabilities)
        elif self.promotion and normalised_entropy(calibrated, len(image.logits)) <= self.entropy_low:
            state.bank.offer("entropy", label, image, calibrated)
