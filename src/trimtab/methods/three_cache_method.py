"""What MCP and MCP++ have in common beside their caches (three_caches.py): hyper-parameters and released values."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from trimtab.engine.block import Query
from trimtab.engine.halves import TextHalves
from trimtab.engine.operations import Size
from trimtab.engine.parameters import choice, number, number_or_none, slots, switch
from trimtab.engine.state import Nothing
from trimtab.engine.temper import TextTemper
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
        form = cls.paper_form if dataset is None else cls.values_released_for(dataset)
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
