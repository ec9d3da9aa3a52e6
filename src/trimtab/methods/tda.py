"""TDA: a positive and a negative cache of few images per class; no training.

Paper: Karmanov, Guan, Lu, El Saddik, Xing, "Efficient Test-Time Adaptation of Vision-Language Models", CVPR 2024.

    logits = s f W + A(f Q_p') L_p - A(f Q_n') L_n        A(x) = alpha exp(-beta (1 - x))

| paper          | here                                                                                  |
|----------------|---------------------------------------------------------------------------------------|
| Q_p, L_p       | section "positive": the items of lowest entropy of each class, speaking for it        |
| Q_n, L_n       | section "negative": uncertain items, speaking against the classes they found plausible |
| tau_l, tau_h   | `entropy_low`, `entropy_high`, in nats over log2 C (see `normalised_entropy`)          |
| p_l            | `mask_low` (`mask_high` = 1 never bites)                                               |

Where the released program says more than the paper we do as it does: with several views an image is the mean of its
confident views (not normalised again), judged by their mean probability; the negative cache, too, keeps the items of
lowest entropy within its window; an image may be in both caches; and it sees itself.
"""

from dataclasses import dataclass
from typing import ClassVar

from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.equations import Array, normalised_entropy, softmax
from trimtab.engine.parameters import choice, number, slots
from trimtab.engine.readouts import AffinitySums, NegativePenalties
from trimtab.engine.state import State
from trimtab.methods.base import CacheMethod
from trimtab.task import Task


@dataclass
class TDAState(State):
    """Two caches in one bank, and what each says of an image."""

    bank: Bank  # (C, positive_slots + negative_slots) slots
    support: AffinitySums  # A(f Q_p') L_p
    penalties: NegativePenalties  # A(f Q_n') L_n


@dataclass(frozen=True, kw_only=True)
class TDA(CacheMethod):
    """Training-free dynamic adapter. Defaults are the released program's for ImageNet."""

    name: ClassVar[str] = "tda"
    parts: ClassVar[tuple[str, ...]] = ("adapted",)

    positive_slots: int = slots(3)
    negative_slots: int = slots(2)
    positive_alpha: float = number(2.0, least=0)
    positive_beta: float = number(5.0, least=0)
    negative_alpha: float = number(0.117, least=0)
    negative_beta: float = number(1.0, least=0)
    entropy_low: float = number(0.2, least=0)
    entropy_high: float = number(0.5, least=0)
    mask_low: float = number(0.03, least=0, most=1)
    mask_high: float = number(1.0, least=0)
    query: Query = choice("confident_mean", ("plain", "confident_mean"))

    def look(self, task: Task, views: Array, first: int) -> Block:
        """A block of images as the text sees them."""
        return Block(task, views, first, self.view_fraction, self.query)

    def new_state(self, task: Task) -> TDAState:
        """Two empty caches."""
        bank = Bank(task.classes, task.dim, {"positive": self.positive_slots, "negative": self.negative_slots})
        return TDAState(
            bank=bank,
            support=AffinitySums(bank, bank.sections["positive"], self.positive_alpha, self.positive_beta),
            penalties=NegativePenalties(
                bank,
                bank.sections["negative"],
                self.negative_alpha,
                self.negative_beta,
                self.mask_low,
                self.mask_high,
            ),
        )

    def observe(self, image: Image, state: TDAState) -> None:
        """Offer the image to the positive cache and, if it is uncertain, to the negative cache of its class."""
        probabilities, entropy = self._judged(image)
        state.bank.offer("positive", image.label, image, entropy)
        if self._is_uncertain(entropy, image):
            slot = self._negative_slot(image, state, entropy)
            if slot is not None:
                state.penalties.write(image.label, slot, image, entropy, probabilities)

    def predict(self, image: Image, state: TDAState) -> dict[str, Array]:
        """One part: the softmax of the adapted logits."""
        return {"adapted": softmax(self.logits(image, state))}

    def logits(self, image: Image, state: TDAState) -> Array:
        """(C,): zero-shot logits, plus what speaks for a class, less what speaks against it."""
        return image.logits + state.support.at(image) - state.penalties.at(image)

    def _judged(self, image: Image) -> tuple[Array, float]:
        """The probabilities and the entropy by which the caches judge an image."""
        if self.query == "plain":
            return image.probabilities, image.entropy
        return image.vote, image.vote_entropy

    def _is_uncertain(self, entropy: float, image: Image) -> bool:
        return self.entropy_low < normalised_entropy(entropy, len(image.logits)) < self.entropy_high

    def _negative_slot(self, image: Image, state: TDAState, entropy: float) -> int | None:
        return state.bank.slot_for_lower("negative", image.label, entropy)
