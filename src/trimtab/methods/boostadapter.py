"""BoostAdapter: TDA whose positive cache is lent the image's own confident views for the time of one prediction.

Paper: Zhang, Wang, Guo, Zheng, Wang, Zhang, "BoostAdapter: Improving Vision-Language Test-Time Adaptation via Regional
Bootstrapping", NeurIPS 2024.

| paper                 | here                                                                                     |
|-----------------------|------------------------------------------------------------------------------------------|
| historical samples    | section "positive", as in TDA                                                            |
| boosting samples      | the image's confident views, each under its own class with its own entropy; never stored |
| delta                 | `boost_slots`: room for them beyond `positive_slots`, where the lowest entropies stay    |

As in the released program: the image is judged by its plain view (the ImageNet variants use `query="confident_mean"`);
the negative cache keeps the latest items, not the least uncertain ones; with one view there is nothing to boost.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.equations import affinity
from trimtab.engine.operations import Size
from trimtab.engine.parameters import choice, slots
from trimtab.engine.wide import WideBank
from trimtab.methods.facts import CACHE, MethodInfo, Released
from trimtab.methods.tda import TDA, TDAState
from trimtab.methods.tda_walk import Lent, nothing_lent

# The released program's room for boosting samples, by data set; the rest is TDA's.
BOOST_SLOTS = {
    "imagenet": 0,
    "imagenet-a": 3,
    "imagenet-v2": 1,
    "imagenet-r": 3,
    "imagenet-sketch": 1,
    "caltech101": 2,
    "dtd": 0,
    "eurosat": 0,
    "fgvc-aircraft": 2,
    "food101": 3,
    "flowers102": 0,
    "oxford-pets": 0,
    "stanford-cars": 3,
    "sun397": 1,
    "ucf101": 0,
}


@dataclass(frozen=True, kw_only=True)
class BoostAdapter(TDA):
    """TDA with regional bootstrapping."""

    name: ClassVar[str] = "boostadapter"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="BoostAdapter",
        paper="Regional Bootstrapping",
        year=2024,
        venue="NeurIPS",
        keeps="two caches",
        views="several",
        traits=CACHE,
        look=("#56B4E9", "v", "-"),
    )
    released_values: ClassVar[Released] = {
        dataset: {**TDA.released_values[dataset], "boost_slots": room} for dataset, room in BOOST_SLOTS.items()
    }

    boost_slots: int = slots(
        2, symbol="delta", about="Room per class for the image's own confident views beyond positive_slots."
    )
    query: Query = choice(
        "plain",
        ("plain", "confident_mean"),
        about="What stands for an image: its plain view, or the mean of its confident views (released on the ImageNet "
        "variants).",
    )

    def walk(self, block: Block, state: TDAState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """A block at once, as TDA's, with the views that each image lends."""
        if isinstance(state.bank, WideBank) or not self.writes_first:
            return None
        lent = self._lent(block) if block.views.shape[1] > 1 else nothing_lent(block)
        return self._walked(block, state, learned, lent, keeps_newest=True)

    def _lent(self, block: Block) -> Lent:
        """The confident views of a block's images, each under its own class."""
        return Lent(
            block.kept_logits.argmax(axis=2),
            np.take_along_axis(block.view_entropies, block.kept, axis=1),
            np.einsum("bnd,bd->bn", block.kept_features, block.queries),
            self.positive_slots + self.boost_slots,
        )

    def logits(self, image: Image, state: TDAState) -> Array:
        """(C,): as TDA's, from a positive cache that the confident views have joined."""
        support = state.support.at(image)
        if image.block.views.shape[1] > 1:
            self._boost(support, image, state)
        return image.logits + support - state.penalties.at(image)

    def _boost(self, support: Array, image: Image, state: TDAState) -> None:
        """Recompute the support of the classes that a confident view believes in."""
        block, bank = image.block, state.bank
        kept = block.kept[image.row]
        entropies = block.view_entropies[image.row, kept]
        labels = block.kept_logits[image.row].argmax(axis=1)
        likeness = block.kept_features[image.row] @ image.feature
        positive, room = bank.sections["positive"], self.positive_slots + self.boost_slots
        for label in set(labels.tolist()):
            stored = bank.occupied[label, positive] > 0
            scores = np.concatenate([bank.scores[label, positive][stored], entropies[labels == label]])
            products = np.concatenate([bank.similarities(image)[label, positive][stored], likeness[labels == label]])
            lowest = np.argsort(scores, kind="stable")[:room]
            support[label] = affinity(products[lowest], self.positive_alpha, self.positive_beta).sum()

    def _negative_slot(self, image: Image, state: TDAState, entropy: float) -> int | None:  # noqa: ARG002
        """Always room for the newest: the oldest gives way."""
        if self.negative_slots == 0:
            return None
        free = state.bank.free_slot("negative", image.label)
        return state.bank.oldest_slot("negative", image.label) if free is None else free

    def operations(self, size: Size) -> float:
        """TDA's, and the likeness of the confident views to the image."""
        return super().operations(size) + (size.products(1, size.kept) if size.views > 1 else 0)
