"""BoostAdapter (NeurIPS 2024), image by image: TDA whose positive cache borrows the image's own confident views."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arithmetic import (
    Vector,
    as_images,
    as_vectors,
    confident_views,
    entropy,
    logits_and_probabilities,
    logits_of,
    relative_entropy,
    softmax,
)
from .caches import Cache, Item, offer_lowest
from .tda import STAGES, look_at, negative_term, positive_term


def run_boostadapter(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    positive_slots: int = 3,
    boost_slots: int = 2,
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
    query: Literal["plain", "confident_mean"] = "plain",
) -> dict[str, NDArray[np.float64]]:
    """`logits` and `probabilities`, each (N, C). `boost_slots` is the paper's delta: room for the image's own views."""
    text = as_vectors(text_prototypes)
    positive: Cache = {}
    negative: Cache = {}
    rows: list[Vector] = []
    for image_views in as_images(views):
        feature, logits, probabilities = look_at(image_views, text, logit_scale, view_fraction, query)
        label, nats = int(np.argmax(logits)), entropy(probabilities)
        view_logits = [logits_of(view, text, logit_scale) for view in image_views]
        for stage in STAGES[order]:
            if stage == "write":
                offer_lowest(positive, label, Item(feature, nats), positive_slots)
                if entropy_low < relative_entropy(nats, len(text)) < entropy_high:
                    offer_newest(negative, label, Item(feature, nats, probabilities), negative_slots)
            else:
                boosted = {own: list(items) for own, items in positive.items()}  # for this prediction only
                for view in confident_views(view_logits, view_fraction) if len(image_views) > 1 else []:
                    item = Item(image_views[view], entropy(softmax(view_logits[view])))
                    offer_lowest(boosted, int(np.argmax(view_logits[view])), item, positive_slots + boost_slots)
                lifted = logits + positive_term(boosted, feature, len(text), positive_alpha, positive_beta)
                against = negative_term(
                    negative, feature, len(text), negative_alpha, negative_beta, mask_low, mask_high
                )
                rows.append(lifted - against)
    return logits_and_probabilities(rows, len(text))


def offer_newest(cache: Cache, label: int, item: Item, slots: int) -> None:
    """First in, first out: the released program keeps the latest uncertain images, not the least uncertain ones."""
    items = cache.setdefault(label, [])
    items.append(item)
    if len(items) > slots:
        items.pop(0)
