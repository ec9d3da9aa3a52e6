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

from trimtab.engine.block import Image, Query
from trimtab.engine.equations import Array, affinity
from trimtab.engine.parameters import choice, slots
from trimtab.methods.tda import TDA, TDAState


@dataclass(frozen=True, kw_only=True)
class BoostAdapter(TDA):
    """TDA with regional bootstrapping."""

    name: ClassVar[str] = "boostadapter"

    boost_slots: int = slots(2)
    query: Query = choice("plain", ("plain", "confident_mean"))

    def logits(self, image: Image, state: TDAState) -> Array:
        """(C,): as TDA's, from a positive cache that the confident views have joined."""
        support = state.support.at(image)
        if image.block.views.shape[1] > 1:
            self._boost(support, image, state)
        return image.logits + support - state.penalties.at(image)

    def _boost(self, support: Array, image: Image, state: TDAState) -> None:
        """Make the support anew for the classes that a confident view believes in."""
        block, bank = image.block, state.bank
        kept = block.kept[image.row]
        entropies = block.view_entropies[image.row, kept]
        labels = block.kept_logits[image.row].argmax(axis=1)
        likeness = block.kept_features[image.row] @ image.feature
        positive, room = bank.sections["positive"], self.positive_slots + self.boost_slots
        for label in set(labels.tolist()):
            stored = bank.occupied[label, positive] > 0
            scores = np.concatenate([bank.scores[label, positive][stored], entropies[labels == label]])
            products = np.concatenate([bank.products[label, positive, image.row][stored], likeness[labels == label]])
            lowest = np.argsort(scores, kind="stable")[:room]
            support[label] = affinity(products[lowest], self.positive_alpha, self.positive_beta).sum()

    def _negative_slot(self, image: Image, state: TDAState, entropy: float) -> int | None:  # noqa: ARG002
        """Always room for the newest: the oldest gives way."""
        if self.negative_slots == 0:
            return None
        free = state.bank.free_slot("negative", image.label)
        return state.bank.oldest_slot("negative", image.label) if free is None else free
