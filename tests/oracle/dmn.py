"""DMN-ZS: the zero-shot form of dual memory networks (CVPR 2024), image by image.

Without labeled images only the dynamic memory is left. The released program mixes the two parts below with a weight
searched on the test labels; they come back separately here.
"""

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
    logits_of,
    normalized,
    single_precision_vote,
    softmax,
    stacked,
)
from .caches import Cache, Item, offer_lowest


def run_dmn(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    memory_slots: int = 50,
    retrieval_beta: float = 5.5,
    view_fraction: float = 0.1,
    order: Literal["write_first", "predict_first"] = "write_first",
) -> dict[str, NDArray[np.float64]]:
    """The parts `text` and `dynamic`, each (N, C) probabilities."""
    text = as_vectors(text_prototypes)
    memory: Cache = {}
    rows: dict[str, list[Vector]] = {"text": [], "dynamic": []}
    for image_views in as_images(views):
        view_logits = [logits_of(view, text, logit_scale) for view in image_views]
        kept = confident_views(view_logits, view_fraction)
        vote = single_precision_vote([view_logits[view] for view in kept])
        plain = image_views[0]  # the memory keeps and reads the plain view, whatever the others voted
        if order == "write_first":
            offer_lowest(memory, int(np.argmax(vote)), Item(plain, entropy(vote)), memory_slots)
        rows["text"].append(softmax(view_logits[0]))
        rows["dynamic"].append(read_out(memory, plain, text, logit_scale, retrieval_beta))
        if order == "predict_first":
            offer_lowest(memory, int(np.argmax(vote)), Item(plain, entropy(vote)), memory_slots)
    return {part: stacked(part_rows, len(text)) for part, part_rows in rows.items()}


def read_out(memory: Cache, feature: Vector, text: list[Vector], logit_scale: float, beta: float) -> Vector:
    """softmax of s <f, r_c>; r_c mixes a class's memory and its text prototype by their likeness to f."""
    logits = []
    for label, prototype in enumerate(text):
        mixed = affinity(dot(feature, prototype), 1.0, beta) * prototype
        for item in memory.get(label, []):
            mixed = mixed + affinity(dot(feature, item.feature), 1.0, beta) * item.feature
        logits.append(logit_scale * dot(feature, normalized(mixed)))
    return softmax(np.array(logits))
