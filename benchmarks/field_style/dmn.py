"""DMN-ZS (CVPR 2024): the released program's dense memory, one (slots + 1, d) sheet per class."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.field_style.common import entropy_of, look, stack_rows


@dataclass
class Memory:
    """The last slot of each class holds its text prototype."""

    features: Tensor  # (C, slots + 1, d)
    entropies: Tensor  # (C, slots)
    counts: list[int]

    @classmethod
    def empty(cls, text: Tensor, slots: int) -> "Memory":
        """Nothing but the text."""
        features = torch.zeros(len(text), slots + 1, text.shape[1])
        features[:, slots] = text
        return cls(features, torch.zeros(len(text), slots), [0] * len(text))


@torch.no_grad()
def run(
    views: Tensor,
    text: Tensor,
    *,
    logit_scale: float = 100.0,
    memory_slots: int = 50,
    retrieval_beta: float = 5.5,
    view_fraction: float = 0.1,
    memory: Memory | None = None,
) -> dict[str, Tensor]:
    """The parts `text` and `dynamic`, (N, C) each."""
    memory = memory or Memory.empty(text, memory_slots)
    features, entropies, counts = memory.features, memory.entropies, memory.counts
    rows: dict[str, list[Tensor]] = {"text": [], "dynamic": []}
    for image in views:
        looked = look(image, text, logit_scale, view_fraction)
        label, entropy = int(looked.probabilities.argmax()), entropy_of(looked.probabilities)
        if counts[label] < memory_slots:
            slot = counts[label]
            counts[label] += 1
        else:
            slot = int(entropies[label].argmax())
        if slot == counts[label] - 1 or entropy < entropies[label, slot]:
            features[label, slot] = image[0]
            entropies[label, slot] = entropy

        weights = torch.exp(-retrieval_beta * (1 - features @ image[0]))  # empty slots are zero vectors and add nothing
        read = normalize((weights.unsqueeze(2) * features).sum(dim=1), dim=1)
        rows["text"].append(looked.logits[:1].softmax(dim=1))
        rows["dynamic"].append((logit_scale * image[:1] @ read.T).softmax(dim=1))
    return stack_rows(rows)
