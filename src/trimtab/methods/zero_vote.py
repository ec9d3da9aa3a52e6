"""ZERO and VTE: ask the image's own confident views, and nothing else.

Papers: Farina, Franchi, Iacca, Mancini, Ricci, "Frustratingly Easy Test-Time Adaptation of Vision-Language Models",
NeurIPS 2024 (ZERO); Döbler, Marsden, Raichle, Yang, "A Lost Opportunity for Vision-Language Models: A Comparative
Study of Online Test-Time Adaptation for Vision-Language Models", 2024 (VTE).

Three parts, all of the same kept views, so that one run compares them:

* `vote` (ZERO): each view's softmax at temperature zero, averaged: the share of views whose best class it is;
* `mean_feature` (VTE): the prediction for the mean of the views' features, not normalized again;
* `mean_probability`: the marginal probability, which both papers set out from.

ZERO's first release keeps 10 % of 64 views, later ones 30 %: `view_fraction`. A tie of votes gets one casting vote,
that of the most confident view which voted for a tied class; ZERO's released program asks its unsorted views instead.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.equations import softmax
from trimtab.engine.operations import Size
from trimtab.engine.state import Nothing
from trimtab.fusion import FusionChoice, fusion_choice
from trimtab.methods.base import CONFIDENT_MEAN, WeighedMethod, share_of_views
from trimtab.methods.facts import MethodInfo
from trimtab.task import Task


@dataclass(frozen=True, kw_only=True)
class ZeroVote(WeighedMethod):
    """The confident views' say, with no memory of other images. By default their majority decides, as in ZERO."""

    name: ClassVar[str] = "zero_vote"
    parts: ClassVar[tuple[str, ...]] = ("vote", "mean_feature", "mean_probability")
    info: ClassVar[MethodInfo] = MethodInfo(
        title="ZERO",
        paper="Frustratingly Easy Test-Time Adaptation",
        year=2024,
        venue="NeurIPS",
        keeps="nothing",
        views="several",
        look=("#000000", ">", ":"),
    )

    query = CONFIDENT_MEAN
    view_fraction: float = share_of_views()
    fusion: FusionChoice = fusion_choice(
        (1.0, 0.0, 0.0),
        about="Which of the three decides: weights of vote (ZERO), mean_feature (VTE) and mean_probability.",
    )

    def new_state(self, task: Task) -> Nothing:  # noqa: ARG002
        """Nothing."""
        return Nothing()

    def observe(self, image: Image, state: Nothing) -> None:
        """Nothing is kept."""

    def predict(self, image: Image, state: Nothing) -> dict[str, Array]:  # noqa: ARG002
        """Three ways of hearing the confident views."""
        ballots = image.block.kept_logits[image.row].argmax(axis=1)
        return {
            "vote": majority(ballots, len(image.logits)),
            "mean_feature": softmax(image.logits),
            "mean_probability": image.vote,
        }

    def walk(self, block: Block, state: Nothing, learned: NDArray[np.bool_]) -> dict[str, Array]:  # noqa: ARG002
        """A block at once."""
        classes = block.task.classes
        return {
            "vote": np.stack([majority(ballots, classes) for ballots in block.kept_logits.argmax(axis=2)]),
            "mean_feature": softmax(block.logits),
            "mean_probability": block.vote,
        }

    def operations(self, size: Size) -> float:
        """Every view against every text."""
        return size.products(size.views, size.classes)


def majority(ballots: np.ndarray[tuple[int, ...], np.dtype[np.intp]], classes: int) -> Array:
    """(C,): shares of the vote; the ballots come most confident first, and the first of a tie has a casting vote."""
    votes = np.bincount(ballots, minlength=classes).astype(np.float32)
    tied = votes[ballots] == votes.max()
    if len(np.unique(ballots[tied])) > 1:
        votes[ballots[tied][0]] += 1
    shares: Array = votes / votes.sum()
    return shares
