"""DMN-ZS (CVPR 2024): the released program's dense memory, one (slots + 1, d) sheet per class."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.field_style.common import entropy_of, look, stack_rows


@torch.no_grad()
def run(
    views: Tensor,
    text: Tensor,
    *,
    logit_scale: float = 100.0,
    memory_slots: int = 50,
    retrieval_beta: float = 5.5,
    view_fraction: float = 0.1,
) -> dict[str, Tensor]:
    """The parts `text` and `dynamic`, (N, C) each."""
    classes, dim = text.shape
    memory = torch.zeros(classes, memory_slots + 1, dim)
    memory[:, memory_slots] = text
    entropies = torch.zeros(classes, memory_slots)
    counts = [0] * classes
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
            memory[label, slot] = image[0]
            entropies[label, slot] = entropy

        weights = torch.exp(-retrieval_beta * (1 - memory @ image[0]))  # empty slots are zero vectors and add nothing
        read = normalize((weights.unsqueeze(2) * memory).sum(dim=1), dim=1)
        rows["text"].append(looked.logits[:1].softmax(dim=1))
        rows["dynamic"].append((logit_scale * image[:1] @ read.T).softmax(dim=1))
    return stack_rows(rows)
