"""ZERO (NeurIPS 2024) and VTE (2024): what an image's own confident views say, with no memory of other images."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arithmetic import (
    Vector,
    as_images,
    as_vectors,
    confident_views,
    logits_of,
    mean_vector,
    softmax,
    stacked,
)


def run_zero_vote(
    views: ArrayLike, text_prototypes: ArrayLike, logit_scale: float, *, view_fraction: float = 0.1
) -> dict[str, NDArray[np.float64]]:
    """Three parts, each (N, C) probabilities.

    `vote` is ZERO: the share of confident views whose best class it is (their softmax at temperature zero).
    `mean_feature` is VTE: the prediction for the mean of the confident views' features.
    `mean_probability` is the marginal probability, what both are compared with.
    """
    text = as_vectors(text_prototypes)
    rows: dict[str, list[Vector]] = {"vote": [], "mean_feature": [], "mean_probability": []}
    for image_views in as_images(views):
        view_logits = [logits_of(view, text, logit_scale) for view in image_views]
        kept = confident_views(view_logits, view_fraction)  # surest first
        rows["vote"].append(majority([int(np.argmax(view_logits[view])) for view in kept], len(text)))
        mean_feature = mean_vector([image_views[view] for view in kept])  # not normalized again
        rows["mean_feature"].append(softmax(logits_of(mean_feature, text, logit_scale)))
        rows["mean_probability"].append(mean_vector([softmax(view_logits[view]) for view in kept]))
    return {part: stacked(part_rows, len(text)) for part, part_rows in rows.items()}


def majority(ballots: list[int], classes: int) -> Vector:
    """Shares of the vote. A tie gets one casting vote: that of the surest view which votes for a tied class."""
    votes = np.zeros(classes)
    for ballot in ballots:
        votes[ballot] += 1.0
    tied = [label for label in range(classes) if votes[label] == votes.max()]
    if len(tied) > 1:
        casting = next(ballot for ballot in ballots if ballot in tied)
        votes[casting] += 1.0
    return votes / votes.sum()
