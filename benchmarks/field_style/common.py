"""What every program of this style has: an entropy cache per class, and affinities with all that it holds."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass
class Item:
    """One cached image."""

    feature: Tensor  # (1, d)
    entropy: float
    probabilities: Tensor | None = None  # (1, C)


Cache = dict[int, list[Item]]


class Looked(NamedTuple):
    """What the views of one image say."""

    logits: Tensor  # (V, C)
    kept: Tensor  # indices of the confident views, surest first
    probabilities: Tensor  # (1, C): mean over the kept views


def look(views: Tensor, text: Tensor, logit_scale: float, view_fraction: float) -> Looked:
    logits = logit_scale * views @ text.T
    probabilities = logits.softmax(dim=1)
    entropies = torch.special.entr(probabilities).sum(dim=1)
    kept = entropies.argsort(stable=True)[: max(1, int(view_fraction * len(views)))]
    return Looked(logits, kept, probabilities[kept].mean(dim=0, keepdim=True))


def entropy_of(probabilities: Tensor) -> float:
    return float(torch.special.entr(probabilities).sum())


def update_lowest(cache: Cache, label: int, item: Item, slots: int) -> bool:
    """Keep the items of lowest entropy, sorted; say whether the item came in."""
    items = cache.setdefault(label, [])
    if len(items) >= slots:
        if not items or item.entropy >= items[-1].entropy:
            return False
        items.pop()
    items.append(item)
    items.sort(key=lambda kept: kept.entropy)
    return True


def positive_term(feature: Tensor, cache: Cache, classes: int, alpha: float, beta: float) -> Tensor:
    """Alpha exp(-beta (1 - f K')) L_p, (1, C)."""
    labels = [label for label, items in cache.items() for _ in items]
    if not labels:
        return torch.zeros(1, classes)
    keys = torch.cat([item.feature for items in cache.values() for item in items])
    affinity = alpha * torch.exp(-beta * (1 - feature @ keys.T))
    return torch.zeros(1, classes).index_add_(1, torch.tensor(labels), affinity)


def negative_term(
    feature: Tensor, cache: Cache, classes: int, alpha: float, beta: float, mask_low: float, mask_high: float
) -> Tensor:
    """Alpha exp(-beta (1 - f K')) L_n, (1, C), with L_n marking the classes an item found plausible."""
    items = [item for kept in cache.values() for item in kept]
    if not items:
        return torch.zeros(len(feature), classes)
    keys = torch.cat([item.feature for item in items])
    plausible = torch.cat([item.probabilities for item in items if item.probabilities is not None])
    mask = ((plausible > mask_low) & (plausible < mask_high)).to(feature.dtype)
    affinity = alpha * torch.exp(-beta * (1 - feature @ keys.T))
    return affinity @ mask


def stack_rows(rows: dict[str, list[Tensor]]) -> dict[str, Tensor]:
    return {part: torch.cat(part_rows) if part_rows else torch.empty(0) for part, part_rows in rows.items()}
