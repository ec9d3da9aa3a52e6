"""TDA: efficient test-time adaptation with a positive and a negative cache (CVPR 2024), image by image."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arithmetic import (
    Vector,
    affinity,
    as_images,
    as_vectors,
    confident_views,
    dot,
    entropy,
    logits_and_probabilities,
    logits_of,
    mean_vector,
    relative_entropy,
    softmax,
)
from .caches import Cache, Item, offer_lowest

STAGES = {"write_first": ("write", "predict"), "predict_first": ("predict", "write")}


def run_tda(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    positive_slots: int = 3,
    negative_slots: int = 2,
    positive_alpha: float = 2.0,
    positive_beta: float = 5.0,
    negative_alpha: float = 0.117,
    negative_beta: float = 1.0,
    entropy_low: float = 0.2,
    entropy_high: float = 0.5,
    mask_low: float = 0.03,
    mask_high: float = 1.0,
    view_fraction: float = 0.1,
    order: Literal["write_first", "predict_first"] = "write_first",
    query: Literal["plain", "confident_mean"] = "confident_mean",
) -> dict[str, NDArray[np.float64]]:
    """`logits` and `probabilities`, each (N, C). With one view the two kinds of query are the same."""
    text = as_vectors(text_prototypes)
    positive: Cache = {}
    negative: Cache = {}
    rows: list[Vector] = []
    for image_views in as_images(views):
        feature, logits, probabilities = look_at(image_views, text, logit_scale, view_fraction, query)
        label, nats = int(np.argmax(logits)), entropy(probabilities)
        for stage in STAGES[order]:
            if stage == "write":
                offer_lowest(positive, label, Item(feature, nats), positive_slots)
                if entropy_low < relative_entropy(nats, len(text)) < entropy_high:
                    offer_lowest(negative, label, Item(feature, nats, probabilities), negative_slots)
            else:
                lifted = logits + positive_term(positive, feature, len(text), positive_alpha, positive_beta)
                against = negative_term(
                    negative, feature, len(text), negative_alpha, negative_beta, mask_low, mask_high
                )
                rows.append(lifted - against)
    return logits_and_probabilities(rows, len(text))


def look_at(
    image_views: list[Vector], text: list[Vector], logit_scale: float, view_fraction: float, query: str
) -> tuple[Vector, Vector, Vector]:
    """The feature, logits and probabilities that stand for an image."""
    if query == "plain":
        logits = logits_of(image_views[0], text, logit_scale)
        return image_views[0], logits, softmax(logits)
    view_logits = [logits_of(view, text, logit_scale) for view in image_views]
    kept = confident_views(view_logits, view_fraction)
    return (
        mean_vector([image_views[view] for view in kept]),  # not normalized again
        mean_vector([view_logits[view] for view in kept]),
        mean_vector([softmax(view_logits[view]) for view in kept]),
    )


def positive_term(cache: Cache, feature: Vector, classes: int, alpha: float, beta: float) -> Vector:
    """A(f K_p') L_p: every cached item speaks for its own class."""
    term = np.zeros(classes)
    for label, items in cache.items():
        for item in items:
            term[label] += affinity(dot(feature, item.feature), alpha, beta)
    return term


def negative_term(
    cache: Cache, feature: Vector, classes: int, alpha: float, beta: float, mask_low: float, mask_high: float
) -> Vector:
    """A(f K_n') L_n: every uncertain item speaks against all classes it found plausible."""
    term = np.zeros(classes)
    for items in cache.values():
        for item in items:
            weight = affinity(dot(feature, item.feature), alpha, beta)
            assert item.probabilities is not None
            for label, probability in enumerate(item.probabilities):
                if mask_low < probability < mask_high:
                    term[label] += weight
    return term
