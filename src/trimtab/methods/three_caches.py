"""The three caches that MCP and MCP++ share: what they keep, and which images they admit.

| cache    | keeps                                                        | keyed by                          |
|----------|--------------------------------------------------------------|-----------------------------------|
| entropy  | the items of lowest entropy                                  | the plain view's class            |
| align    | items of low entropy that are nearer to the class's center   | the vote of the confident views   |
| negative | uncertain items, and the classes that they speak against     | the class after reflection        |

| equation or rule         | function                                   |
|--------------------------|--------------------------------------------|
| M_entropy, admission     | `ThreeCaches.write`, `Bank.slot_for_lower` |
| M_align, admission       | `ThreeCaches._align_slot`                  |
| mu_c (Eq. 2)             | `ThreeCaches._with_center`                 |
| reflecting, three cases  | `ThreeCaches._reflect`                     |
| Q_n, L_n                 | `engine.readouts.NegativePenalties`        |
| v_c                      | `engine.readouts.MeanProducts` (<f, v_c>), `engine.prototypes.Prototypes` (v_c itself) |

Where the paper leaves room we do as the authors' released program does: v_c is a plain mean, not normalized, and an
image that both caches keep counts twice. One difference: an item that the reflecting mechanism promotes is visible at
once, as the paper's text says; in the released program only when its class is next written.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.clarity import Clarity
from trimtab.engine.equations import normalized_entropy
from trimtab.engine.halves import TextHalves
from trimtab.engine.kernels import best_of, softmax_in_place
from trimtab.engine.operations import Size
from trimtab.engine.parameters import choice, number, number_or_none, slots, switch
from trimtab.engine.readouts import AffinitySums, MeanProducts, NegativePenalties, RetrievalCosines
from trimtab.engine.state import Nothing, State
from trimtab.engine.temper import TextTemper
from trimtab.engine.wide import WideBank
from trimtab.engine.wide_readouts import kind_for
from trimtab.errors import TrimtabError
from trimtab.methods.base import CacheMethod, WeighedMethod
from trimtab.methods.facts import EVERYDAY, RENDITIONS, SPECIFIC_TEMPLATES, Templates
from trimtab.methods.three_caches_walk import Rules
from trimtab.task import Task

# The authors' alpha and beta of A(x), by data set.
AFFINITIES = {
    "imagenet": (5.5, 8.0),
    "imagenet-a": (4.0, 3.0),
    "imagenet-v2": (2.5, 1.0),
    "imagenet-r": (1.0, 8.0),
    "imagenet-sketch": (2.0, 3.0),
    "caltech101": (5.0, 5.0),
    "dtd": (5.0, 7.0),
    "eurosat": (3.0, 8.0),
    "fgvc-aircraft": (4.0, 5.0),
    "food101": (1.0, 1.0),
    "flowers102": (1.0, 8.0),
    "oxford-pets": (2.0, 7.0),
    "stanford-cars": (3.0, 4.0),
    "sun397": (1.0, 2.0),
    "ucf101": (1.0, 7.0),
}
USUAL_AFFINITY = (3.0, 8.0)  # the middle of the authors' values
PAPER_FORM = {"text_scale": "given", "prototype_term": "affinity", "lifetime": 0}


def released_affinity(dataset: str) -> dict[str, Any]:
    """The released program's A(x), and what stands for an image, for one of the paper's sets."""
    alpha, beta = AFFINITIES[dataset]
    query = "confident_mean" if dataset == "imagenet-a" else "plain"
    return {**PAPER_FORM, "positive_alpha": alpha, "positive_beta": beta, "query": query}


@dataclass(frozen=True, kw_only=True)
class ThreeCacheMethod(CacheMethod, WeighedMethod):
    """The hyper-parameters of the caches. The two methods differ in how they predict."""

    parts: ClassVar[tuple[str, ...]] = ("text", "prototype", "retrieval")
    paper_form: ClassVar[dict[str, Any]] = PAPER_FORM
    templates: ClassVar[Templates] = {
        **SPECIFIC_TEMPLATES,
        **dict.fromkeys(RENDITIONS, "imagenet7"),
        **dict.fromkeys(EVERYDAY, "photo"),
    }

    text_scale: str = choice(
        "stream",
        ("stream", "given"),
        symbol="s",
        about="The logit scale: 'stream' finds one at which the text's mean confidence is 0.4, so that the scale that "
        "comes with the encoder does not matter (ours); 'given' is the task's, as in the paper.",
    )
    level_names: bool = switch(
        True,
        about="Whether names that speak far louder than others are put on one level (ours); only with "
        "text_scale='stream'.",
    )
    prototype_term: str = choice(
        "matched",
        ("matched", "affinity"),
        symbol="first term of Eq. 4",
        about="How the visual prototypes speak: 'matched' is linear in the cosine, with a strength found from the "
        "stream (ours); 'affinity' is the paper's A(x) = alpha exp(-beta (1 - x)).",
    )
    positive_alpha: float | None = number_or_none(
        least=0,
        symbol="alpha of A, Eq. 4",
        about="Strength of A(x); only with prototype_term='affinity'; None means 3. Released values: 1 to 5.5.",
    )
    positive_beta: float | None = number_or_none(
        least=0,
        symbol="beta of A, Eq. 4",
        about="Sharpness of A(x); only with prototype_term='affinity'; None means 8. Released values: 1 to 8.",
    )

    entropy_slots: int = slots(
        10,
        symbol="|M_entropy|",
        about="Items per class in the entropy cache. More is steadier, and slower to follow a drifting stream.",
    )
    align_slots: int = slots(
        10, symbol="|M_align|", about="Items per class in the align cache, which keeps each class compact."
    )
    negative_slots: int = slots(
        3, symbol="|M_negative|", about="Uncertain items per class that speak against what they might be mistaken for."
    )
    lifetime: int = slots(
        100,
        about="Images of a class, per slot of a cache, after which an item gives way: a cache is the best of the last "
        "so many. While the text is less clear than usual, full caches are closed (ours). 0: neither, as in the paper.",
    )
    negative_alpha: float = number(
        0.117, least=0, symbol="alpha of A, negative", about="Strength of a negative item; 0 silences the cache."
    )
    negative_beta: float = number(
        1.0, least=0, symbol="beta of A, negative", about="How fast a negative item's strength falls with distance."
    )
    entropy_low: float = number(
        0.2,
        least=0,
        symbol="tau_l",
        about="Entropy, in nats over log2 C, above which an image counts as uncertain; at or below it after "
        "reflection, it is promoted.",
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
    mask_high: float = number(
        1.0, least=0, symbol="p_h", about="... and less probable than this; 1 leaves none out, as released."
    )
    center_weight: float = number(
        0.8,
        least=0,
        most=1,
        symbol="w",
        about="Share of the visual prototype in the class's center, Eq. 2; the text prototype has the rest. Lower it "
        "where the text is strong.",
    )
    retrieval_beta: float = number(
        5.5, least=0, symbol="beta of A, Eq. 3", about="How strongly retrieval prefers the items nearest to the image."
    )
    promotion: bool = switch(
        True,
        about="Whether an image that reflection makes certain enters the entropy cache. The released program lets it "
        "speak only later; turn it off to repeat that program exactly.",
    )
    query: Query = choice(
        "plain",
        ("plain", "confident_mean"),
        about="What stands for an image: its plain view, or the mean of its confident views (released on ImageNet-A).",
    )

    @classmethod
    def paper(cls, dataset: str | None = None) -> Self:
        """The paper's form: A(x) in the prototype term (Eq. 4) and a plain sum of the three parts (Eq. 5).

        The paper prints neither alpha and beta nor the weights. With a `dataset` A(x) is the released program's for
        that set, else the middle of its values; the weights are equal, because the authors' were searched on labels.
        """
        form = cls.released_values[dataset] if dataset else cls.paper_form
        return cls(**form, fusion=(1.0, 1.0, 1.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter in ("positive_alpha", "positive_beta"):
            if self.prototype_term == "matched" and getattr(self, parameter) is not None:
                title = "MCP" if self.info is None else self.info.title
                raise TrimtabError(
                    f"{title}: {parameter} has no effect on the prototype term 'matched', which finds its strength "
                    "from the stream; leave it out, or choose prototype_term='affinity', the paper's form "
                    f"({type(self).__name__}.paper())."
                )

    @property
    def affinity(self) -> tuple[float, float]:
        """Alpha and beta of A(x); the reflecting mechanism needs them whatever the prototype term is."""
        alpha, beta = USUAL_AFFINITY
        return (
            alpha if self.positive_alpha is None else float(self.positive_alpha),
            beta if self.positive_beta is None else float(self.positive_beta),
        )

    @cached_property
    def speech(self) -> tuple[bool, np.float32, np.float32]:
        """How the prototypes speak, as compiled loops take it: matched or not, alpha and beta of A(x)."""
        alpha, beta = self.affinity
        return self.prototype_term == "matched", np.float32(alpha), np.float32(beta)

    @cached_property
    def rules(self) -> Rules:
        """What the caches ask, as compiled loops take it; slot 0 holds the text prototype."""
        align = 1 + self.entropy_slots
        negative = align + self.align_slots
        starts = 1, align, negative, negative + self.negative_slots
        bounds = float(self.entropy_low), float(self.entropy_high), float(self.center_weight)
        return Rules(*starts, *bounds, self.promotion, self.query == "plain")

    def new_caches(self, task: Task) -> "ThreeCaches":
        """Empty caches."""
        return ThreeCaches.empty(self, task)

    def new_temper(self, task: Task) -> TextTemper | Nothing:
        """What finds the logit scale, if it is not the task's."""
        if self.text_scale != "stream":
            return Nothing()
        return TextTemper(task.logit_scale, task.classes, level_names=self.level_names)

    def new_halves(self, task: Task) -> TextHalves | Nothing:
        """What says how sure answers should be, if the logit scale does not."""
        return TextHalves(task.classes) if self.text_scale == "stream" else Nothing()

    def operations(self, size: Size) -> float:
        """Zero-shot of every view, the products with all items, the norms of Eq. 3 and the masks of the negatives."""
        items = self.entropy_slots + self.align_slots
        return (
            size.products(size.views, size.classes)
            + size.products(1, size.classes * (items + self.negative_slots))
            + size.norms(items + 1)
            + size.masks(self.negative_slots)
        )


@dataclass
class ThreeCaches(State):
    """One bank: slot 0 holds the text prototype, then come the entropy, align and negative caches."""

    bank: Bank  # (C, 1 + entropy_slots + align_slots + negative_slots) slots
    visual: MeanProducts  # <f, v_c>
    reflected: AffinitySums  # what the entropy cache alone says, for the reflecting mechanism
    retrieved: RetrievalCosines  # <f, r_c>
    penalties: NegativePenalties  # what the negative cache says against each class
    clarity: Clarity  # whether items age

    @classmethod
    def empty(cls, rules: ThreeCacheMethod, task: Task) -> "ThreeCaches":
        """No items beside the text prototypes."""
        sections = {"entropy": rules.entropy_slots, "align": rules.align_slots, "negative": rules.negative_slots}
        kind = kind_for(task.classes)
        bank = kind.bank(
            task.classes,
            task.dim,
            sections,
            anchors=task.text_prototypes,
            lifetime=rules.lifetime,
        )
        items = slice(1, bank.sections["align"].stop)
        return cls(
            bank=bank,
            visual=kind.mean_products(bank, items),
            reflected=kind.affinity_sums(bank, bank.sections["entropy"], *rules.affinity),
            retrieved=kind.retrieval_cosines(bank, slice(0, items.stop), rules.retrieval_beta),
            penalties=kind.negative_penalties(
                bank,
                bank.sections["negative"],
                rules.negative_alpha,
                rules.negative_beta,
                rules.mask_low,
                rules.mask_high,
            ),
            clarity=Clarity(),
        )

    def __post_init__(self) -> None:
        self._last: Block | None = None  # that was opened

    def open(self, block: Block) -> None:
        """Make everything ready, once; a single image's products with slot 0 are its cosines with the text."""
        if block is self._last:
            return
        super().open(block)
        self._last = block
        if not isinstance(self.bank, WideBank):
            block.take_cosines(self.bank.products_with_anchors)

    def before_judging(self, block: Block) -> None:
        """A guard asks for a single image's cosines before the caches do; of several views, it decides which count."""
        if block.views.shape[:2] == (1, 1):
            self.open(block)

    def write(self, image: Image, rules: ThreeCacheMethod) -> None:
        """Offer the image to the entropy cache, the align cache and, if it is uncertain, to the negative cache."""
        self.bank.grow_older(image.label, self.clarity.take_in(image.logits))
        # The align test uses the visual prototype as it was before this image, so it comes before any write.
        align_slot = self._align_slot(image, rules)
        self.bank.offer("entropy", image.label, image, image.entropy)
        if align_slot is not None:
            plain = None if rules.query == "plain" else image.plain  # the align cache always holds plain views
            self.bank.write(image.vote_label, align_slot, image, image.vote_entropy, feature=plain)
        if _is_uncertain(image.entropy, image, rules):
            self._reflect(image, rules)

    def _align_slot(self, image: Image, rules: ThreeCacheMethod) -> int | None:
        """Where the align cache would take the image.

        It must be more certain than the least certain item of its class, and nearer to the class's center.
        """
        bank, label = self.bank, image.vote_label
        slot = bank.slot_for_lower("align", label, image.vote_entropy)
        if slot is None or not bank.occupied[label, slot]:
            return slot
        arriving = bank.items(label) @ image.plain
        leaving = bank.gram[label, slot]
        # Squared distances to the center, less |mu|^2, which both share.
        arriving_distance = float(image.plain @ image.plain) - 2 * self._with_center(arriving, label, rules)
        leaving_distance = float(leaving[slot]) - 2 * self._with_center(leaving, label, rules)
        return slot if arriving_distance < leaving_distance else None

    def _with_center(self, products: Array, label: int, rules: ThreeCacheMethod) -> float:
        """<x, mu_c> from the products of x with the slots of a class that holds something."""
        items = slice(1, self.bank.sections["align"].stop)
        occupied = self.bank.occupied[label, items]
        with_visual = float(products[items] @ occupied) / float(occupied.sum())  # <x, v_c>
        return rules.center_weight * with_visual + (1 - rules.center_weight) * float(products[0])  # Eq. 2

    def _reflect(self, image: Image, rules: ThreeCacheMethod) -> None:
        """The reflecting mechanism: ask the entropy cache again before trusting an uncertain image as a negative."""
        probabilities = image.logits + self.reflected.at(image)
        calibrated = float(softmax_in_place(probabilities))
        label = int(best_of(probabilities))
        if _is_uncertain(calibrated, image, rules):  # case 1: still uncertain, a negative item
            self.bank.offer("negative", label, image, calibrated, payload=probabilities)
        elif normalized_entropy(calibrated, len(image.logits)) <= rules.entropy_low:  # case 2: certain now, promoted
            if rules.promotion:
                self.bank.offer("entropy", label, image, calibrated)
        else:  # case 3: more uncertain than before, dropped
            return


def _is_uncertain(entropy_in_nats: float, image: Image, rules: ThreeCacheMethod) -> bool:
    return rules.entropy_low < normalized_entropy(entropy_in_nats, len(image.logits)) < rules.entropy_high
