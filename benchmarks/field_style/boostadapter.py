"""BoostAdapter (NeurIPS 2024): TDA with the image's own confident views in a copy of the positive cache."""

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
    caches: tuple[Cache, Cache] | None = None,
) -> dict[str, Tensor]:
    """`logits` (N, C). The copy is of the lists only; the released program copies every tensor as well."""
    classes = len(text)
    bits = float(torch.log2(torch.tensor(float(classes))))
    positive, negative = caches or ({}, {})
    rows: dict[str, list[Tensor]] = {"logits": []}
    for image in views:
        looked = look(image, text, logit_scale, view_fraction)
        feature, logits = image[:1], looked.logits[:1]
        probabilities = logits.softmax(dim=1)
        label, entropy = int(logits.argmax()), entropy_of(probabilities)

        update_lowest(positive, label, Item(feature, entropy), positive_slots)
        boosted = {own: list(items) for own, items in positive.items()}
        for view in looked.kept.tolist() if len(image) > 1 else []:
            view_logits = looked.logits[view : view + 1]
            item = Item(image[view : view + 1], entropy_of(view_logits.softmax(dim=1)))
            update_lowest(boosted, int(view_logits.argmax()), item, positive_slots + boost_slots)
        if entropy_low < entropy / bits < entropy_high and negative_slots > 0:
            latest = negative.setdefault(label, [])
            latest.append(Item(feature, entropy, probabilities))
            del latest[:-negative_slots]

        final = logits + positive_term(feature, boosted, classes, positive_alpha, positive_beta)
        final -= negative_term(feature, negative, classes, negative_alpha, negative_beta, mask_low, mask_high)
        rows["logits"].append(final)
    return stack_rows(rows)
