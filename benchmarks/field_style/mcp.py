"""MCP (ICCV 2025): entropy, align and negative cache."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.field_style.common import (
    Cache,
    Item,
    Looked,
    entropy_of,
    look,
    negative_term,
    positive_term,
    stack_rows,
    update_lowest,
)


@dataclass(frozen=True)
class Settings:
    """The hyper-parameters, under the names the package uses."""

    entropy_slots: int = 10
    align_slots: int = 10
    negative_slots: int = 3
    positive_alpha: float = 2.0
    positive_beta: float = 5.0
    negative_alpha: float = 0.117
    negative_beta: float = 1.0
    entropy_low: float = 0.2
    entropy_high: float = 0.5
    mask_low: float = 0.03
    mask_high: float = 1.0
    center_weight: float = 0.8
    retrieval_beta: float = 5.5
    promotion: bool = True
    view_fraction: float = 0.1


@dataclass
class Caches:
    """The three caches and the visual prototype of every class that holds something."""

    entropy: Cache = field(default_factory=dict)
    align: Cache = field(default_factory=dict)
    negative: Cache = field(default_factory=dict)
    prototypes: dict[int, Tensor] = field(default_factory=dict)  # class -> (1, d), renewed when the class is written

    def items(self, label: int) -> list[Item]:
        return self.entropy.get(label, []) + self.align.get(label, [])

    def renew(self, label: int) -> None:
        self.prototypes[label] = torch.cat([item.feature for item in self.items(label)]).mean(dim=0, keepdim=True)


@torch.no_grad()
def run(
    views: Tensor, text: Tensor, *, logit_scale: float = 100.0, caches: Caches | None = None, **parameters: float
) -> dict[str, Tensor]:
    """The parts `text`, `prototype`, `retrieval`, (N, C) each, for views (N, V, d) and text (C, d)."""
    settings = Settings(**parameters)  # type: ignore[arg-type]
    caches = Caches() if caches is None else caches
    rows: dict[str, list[Tensor]] = {"text": [], "prototype": [], "retrieval": []}
    for image in views:
        looked = look(image, text, logit_scale, settings.view_fraction)
        write(caches, image[:1], looked, text, settings)
        rows["text"].append(looked.probabilities)
        rows["prototype"].append(prototype_logits(caches, image[:1], looked.logits[:1], settings).softmax(dim=1))
        rows["retrieval"].append(retrieve(caches, image[:1], text, logit_scale, settings.retrieval_beta))
    return stack_rows(rows)


def write(caches: Caches, feature: Tensor, looked: Looked, text: Tensor, settings: Settings) -> None:
    logits = looked.logits[:1]
    entropy = entropy_of(logits.softmax(dim=1))
    label, voted = int(logits.argmax()), int(looked.probabilities.argmax())
    center = text[voted]
    if voted in caches.prototypes:
        center = settings.center_weight * caches.prototypes[voted] + (1 - settings.center_weight) * center
    touched = set()
    if update_lowest(caches.entropy, label, Item(feature, entropy), settings.entropy_slots):
        touched.add(label)

    aligned = caches.align.setdefault(voted, [])
    item = Item(feature, entropy_of(looked.probabilities))
    full = len(aligned) >= settings.align_slots
    nearer = not full or (aligned and torch.dist(feature, center) < torch.dist(aligned[-1].feature, center))
    if nearer and update_lowest(caches.align, voted, item, settings.align_slots):
        touched.add(voted)
    touched |= reflect(caches, feature, logits, entropy, settings)
    for changed in touched:
        caches.renew(changed)


def reflect(caches: Caches, feature: Tensor, logits: Tensor, entropy: float, settings: Settings) -> set[int]:
    """Look at an uncertain image again with the entropy cache's help; the classes whose prototype it changes."""
    classes = logits.shape[1]
    bits = float(torch.log2(torch.tensor(float(classes))))
    low, high = settings.entropy_low, settings.entropy_high
    if not low < entropy / bits < high:
        return set()
    lifted = logits + positive_term(feature, caches.entropy, classes, settings.positive_alpha, settings.positive_beta)
    probabilities = lifted.softmax(dim=1)
    label, entropy = int(lifted.argmax()), entropy_of(probabilities)
    if low < entropy / bits < high:
        update_lowest(caches.negative, label, Item(feature, entropy, probabilities), settings.negative_slots)
        return set()
    promoted = entropy / bits <= low and settings.promotion
    if promoted and update_lowest(caches.entropy, label, Item(feature, entropy), settings.entropy_slots):
        return {label}
    return set()


def prototype_logits(caches: Caches, feature: Tensor, logits: Tensor, settings: Settings) -> Tensor:
    classes = logits.shape[1]
    final = logits.clone()
    if caches.prototypes:
        prototypes = torch.cat(list(caches.prototypes.values()))
        affinity = settings.positive_alpha * torch.exp(-settings.positive_beta * (1 - feature @ prototypes.T))
        final.index_add_(1, torch.tensor(list(caches.prototypes)), affinity)
    return final - negative_term(
        feature,
        caches.negative,
        classes,
        settings.negative_alpha,
        settings.negative_beta,
        settings.mask_low,
        settings.mask_high,
    )


def retrieve(caches: Caches, feature: Tensor, text: Tensor, logit_scale: float, beta: float) -> Tensor:
    """Softmax of s <f, r_c>, r_c being the mix of a class's cached features and text prototype that resembles f."""
    labels = [label for label in caches.prototypes for _ in caches.items(label)]
    features = [item.feature for label in caches.prototypes for item in caches.items(label)]
    keys = torch.cat([*features, text])
    index = torch.tensor([*labels, *range(len(text))])
    weights = torch.exp(-beta * (1 - keys @ feature[0]))
    mixed = torch.zeros_like(text).index_add_(0, index, weights[:, None] * keys)
    return (logit_scale * feature @ normalize(mixed, dim=1).T).softmax(dim=1)
