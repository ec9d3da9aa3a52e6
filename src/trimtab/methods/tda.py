"""TDA: a positive and a negative cache of few images per class; no training.

Paper: Karmanov, Guan, Lu, El Saddik, Xing, "Efficient Test-Time Adaptation of Vision-Language Models", CVPR 2024.

    logits = s f W + A(f Q_p') L_p - A(f Q_n') L_n        A(x) = alpha exp(-beta (1 - x))

| paper          | here                                                                                  |
|----------------|---------------------------------------------------------------------------------------|
| Q_p, L_p       | section "positive": the items of lowest entropy of each class, speaking for it        |
| Q_n, L_n       | section "negative": uncertain items, speaking against the classes they found plausible |
| tau_l, tau_h   | `entropy_low`, `entropy_high`, in nats over log2 C (see `normalized_entropy`)          |
| p_l            | `mask_low` (`mask_high` = 1 never bites)                                               |

Where the released program says more than the paper we do as it does: with several views an image is the mean of its
confident views (not normalized again), judged by their mean probability; the negative cache, too, keeps the items of
lowest entropy within its window; an image may be in both caches; and it sees itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.equations import normalized_entropy, softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import choice, number, slots
from trimtab.engine.readouts import AffinitySums, NegativePenalties
from trimtab.engine.state import State
from trimtab.engine.wide import WideBank
from trimtab.engine.wide_readouts import kind_for
from trimtab.methods.base import CacheMethod
from trimtab.methods.facts import (
    CACHE,
    EVERYDAY,
    IMAGENET_VARIANTS,
    RENDITIONS,
    SPECIFIC_TEMPLATES,
    MethodInfo,
    Released,
    Templates,
)
from trimtab.methods.tda_walk import Judged, Lent, Rules, nothing_lent, walk
from trimtab.task import Task

# The released program's alpha and beta of A(x), by data set.
AFFINITIES = {
    "imagenet": (2.0, 5.0),
    "imagenet-a": (2.0, 5.0),
    "imagenet-v2": (1.0, 8.0),
    "imagenet-r": (1.0, 8.0),
    "imagenet-sketch": (2.363, 7.45),
    "caltech101": (5.0, 5.0),
    "dtd": (2.0, 3.0),
    "eurosat": (4.0, 8.0),
    "fgvc-aircraft": (2.0, 2.0),
    "food101": (1.0, 1.0),
    "flowers102": (1.0, 5.0),
    "oxford-pets": (2.0, 7.0),
    "stanford-cars": (1.0, 7.0),
    "sun397": (2.0, 3.0),
    "ucf101": (3.0, 8.0),
}


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
    info: ClassVar[MethodInfo] = MethodInfo(
        title="TDA",
        paper="Efficient Test-Time Adaptation of Vision-Language Models",
        year=2024,
        venue="CVPR",
        keeps="two caches",
        traits=CACHE | {"HighEntro"},
        look=("#0072B2", "o", "-"),
    )
    released_values: ClassVar[Released] = {
        dataset: {
            "positive_alpha": alpha,
            "positive_beta": beta,
            "query": "confident_mean" if dataset in IMAGENET_VARIANTS else "plain",
        }
        for dataset, (alpha, beta) in AFFINITIES.items()
    }
    templates: ClassVar[Templates] = {
        **SPECIFIC_TEMPLATES,
        **dict.fromkeys(RENDITIONS, "imagenet80"),
        **dict.fromkeys(EVERYDAY, "imagenet7"),
    }

    positive_slots: int = slots(
        3, symbol="k_p", about="Items per class in the positive cache: those of lowest entropy."
    )
    negative_slots: int = slots(
        2, symbol="k_n", about="Uncertain items per class that speak against what they might be mistaken for."
    )
    positive_alpha: float = number(
        2.0, least=0, symbol="alpha", about="Strength of the positive cache beside the text. Released values: 1 to 5."
    )
    positive_beta: float = number(
        5.0, least=0, symbol="beta", about="How fast an item's strength falls with distance. Released values: 1 to 8."
    )
    negative_alpha: float = number(
        0.117, least=0, symbol="alpha, negative", about="Strength of the negative cache; 0 silences it."
    )
    negative_beta: float = number(
        1.0, least=0, symbol="beta, negative", about="How fast a negative item's strength falls with distance."
    )
    entropy_low: float = number(
        0.2, least=0, symbol="tau_l", about="Entropy, in nats over log2 C, above which an image counts as uncertain."
    )
    entropy_high: float = number(
        0.5, least=0, symbol="tau_h", about="Entropy, in nats over log2 C, from which an image says nothing at all."
    )
    mask_low: float = number(
        0.03,
        least=0,
        most=1,
        symbol="p_l",
        about="A negative item speaks against the classes that it finds more probable than this.",
    )
    mask_high: float = number(1.0, least=0, about="... and less probable than this; 1 leaves none out, as released.")
    query: Query = choice(
        "confident_mean",
        ("plain", "confident_mean"),
        about="What stands for an image: the mean of its confident views (released on the ImageNet variants), or its "
        "plain view (released on ImageNet and the ten other sets).",
    )

    def new_state(self, task: Task) -> TDAState:
        """Two empty caches."""
        kind = kind_for(task.classes)
        bank = kind.bank(task.classes, task.dim, {"positive": self.positive_slots, "negative": self.negative_slots})
        return TDAState(
            bank=bank,
            support=kind.affinity_sums(bank, bank.sections["positive"], self.positive_alpha, self.positive_beta),
            penalties=kind.negative_penalties(
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
                state.bank.write(image.label, slot, image, entropy, payload=probabilities)

    def predict(self, image: Image, state: TDAState) -> dict[str, Array]:
        """One part: the softmax of the adapted logits."""
        return {"adapted": softmax(self.logits(image, state))}

    def walk(self, block: Block, state: TDAState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """A block at once: all writes first, then the logits from what each image found."""
        wide = isinstance(state.bank, WideBank)
        if not self.writes_first or (wide and not learned.all()):
            return None
        if not wide:
            return self._walked(block, state, learned, nothing_lent(block), keeps_newest=False)
        state.open(block)  # its slots come and go; the parts of a block are still made at once
        for image in block:
            self.observe(image, state)
        return self._parts_of(block, state)

    def _walked(
        self, block: Block, state: TDAState, learned: NDArray[np.bool_], lent: Lent, *, keeps_newest: bool
    ) -> dict[str, Array]:
        """Write a block in one compiled loop; the negative cache `keeps_newest` items or those of lowest entropy."""
        state.open(block)
        plain, negative = self.query == "plain", state.bank.sections["negative"]
        entropies = block.entropies if plain else block.vote_entropies
        judged = Judged(block.labels, entropies, block.probabilities if plain else block.vote)
        bounds = float(self.entropy_low), float(self.entropy_high)
        state.bank.walk(walk, learned, judged, Rules(negative.start, negative.stop, *bounds, keeps_newest), lent)
        return self._parts_of(block, state)

    def _parts_of(self, block: Block, state: TDAState) -> dict[str, Array]:
        """What each image of a block found after its own write."""
        return {"adapted": softmax(block.logits + state.support.of_block() - state.penalties.of_block())}

    def logits(self, image: Image, state: TDAState) -> Array:
        """(C,): zero-shot logits, plus what speaks for a class, less what speaks against it."""
        return image.logits + state.support.at(image) - state.penalties.at(image)

    def _judged(self, image: Image) -> tuple[Array, float]:
        """The probabilities and the entropy by which the caches judge an image."""
        if self.query == "plain":
            return image.probabilities, image.entropy
        return image.vote, image.vote_entropy

    def _is_uncertain(self, entropy: float, image: Image) -> bool:
        return self.entropy_low < normalized_entropy(entropy, len(image.logits)) < self.entropy_high

    def _negative_slot(self, image: Image, state: TDAState, entropy: float) -> int | None:
        return state.bank.slot_for_lower("negative", image.label, entropy)

    def operations(self, size: Size) -> float:
        """Every view against every text, the image against every item, and the masks of the negative items."""
        return (
            size.products(size.views, size.classes)
            + size.products(1, size.classes * (self.positive_slots + self.negative_slots))
            + size.masks(self.negative_slots)
        )
