"""TDA (CVPR 2024)."""

import torch
from torch import Tensor

from benchmarks.field_style.common import (
    Cache,
    Item,
    entropy_of,
    look,
    negative_term,
    positive_term,
    stack_rows,
    update_lowest,
)


@torch.no_grad()
def run(
    views: Tensor,
    text: Tensor,
    *,
    logit_scale: float = 100.0,
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
    caches: tuple[Cache, Cache] | None = None,
) -> dict[str, Tensor]:
    """`logits` (N, C) for views (N, V, d) and text (C, d)."""
    classes = len(text)
    bits = float(torch.log2(torch.tensor(float(classes))))
    positive, negative = caches or ({}, {})
    rows: dict[str, list[Tensor]] = {"logits": []}
    for image in views:
        looked = look(image, text, logit_scale, view_fraction)
        feature = image[looked.kept].mean(dim=0, keepdim=True)
        logits = looked.logits[looked.kept].mean(dim=0, keepdim=True)
        label, entropy = int(logits.argmax()), entropy_of(looked.probabilities)

        update_lowest(positive, label, Item(feature, entropy), positive_slots)
        if entropy_low < entropy / bits < entropy_high:
            update_lowest(negative, label, Item(feature, entropy, looked.probabilities), negative_slots)

        final = logits + positive_term(feature, positive, classes, positive_alpha, positive_beta)
        final -= negative_term(feature, negative, classes, negative_alpha, negative_beta, mask_low, mask_high)
        rows["logits"].append(final)
    return stack_rows(rows)
