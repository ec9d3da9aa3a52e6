"""DPE (NeurIPS 2024): one autograd step on text and visual residuals per image."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from benchmarks.field_style.common import Cache, Item, entropy_of, look, stack_rows, update_lowest


@dataclass
class Evolving:
    """What goes from image to image."""

    text: Tensor  # (C, d): the running mean
    updates: int = 0
    cache: Cache = field(default_factory=dict)


def run(
    views: Tensor,
    text: Tensor,
    *,
    logit_scale: float = 100.0,
    positive_slots: int = 3,
    positive_alpha: float = 6.0,
    positive_beta: float = 5.0,
    lr_text: float = 6e-4,
    lr_image: float = 6e-4,
    align_weight: float = 0.2,
    temperature: float = 0.01,
    adam_eps: float = 1e-3,
    weight_decay: float = 0.1,
    evolve_threshold: float = 0.1,
    view_fraction: float = 0.1,
    evolving: Evolving | None = None,
) -> dict[str, Tensor]:
    """`logits` (N, C)."""
    classes = len(text)
    bits = float(torch.log2(torch.tensor(float(classes))))
    evolving = evolving or Evolving(text.clone())
    evolved, updates, cache = evolving.text, evolving.updates, evolving.cache
    rows: dict[str, list[Tensor]] = {"logits": []}
    for image in views:
        text_residual = torch.zeros_like(evolved, requires_grad=True)
        moved_text = normalize(evolved + text_residual, dim=1)
        looked = look(image, moved_text, logit_scale, view_fraction)
        mean_logits = looked.logits[looked.kept].mean(dim=0)
        feature = image[looked.kept].mean(dim=0, keepdim=True)
        entropy = entropy_of(looked.probabilities.detach())
        update_lowest(cache, int(mean_logits.argmax()), Item(feature, entropy), positive_slots)

        present = sorted(cache)
        means = torch.stack([torch.cat([item.feature for item in cache[label]]).mean(dim=0) for label in present])
        visual_residual = torch.zeros_like(means, requires_grad=True)
        visual = normalize(means + visual_residual, dim=1)
        index = torch.tensor(present)

        affinity = positive_alpha * torch.exp(-positive_beta * (1 - visual @ feature[0]))
        logits = mean_logits.index_add(0, index, affinity)
        loss = torch.special.entr(logits.softmax(dim=0)).sum()
        alike = visual @ moved_text[index].T / temperature
        loss = loss + align_weight * cross_entropy(alike, torch.arange(len(present)))
        groups = [{"params": [text_residual], "lr": lr_text}, {"params": [visual_residual], "lr": lr_image}]
        optimizer = torch.optim.AdamW(groups, eps=adam_eps, weight_decay=weight_decay)
        loss.backward()
        optimizer.step()

        with torch.no_grad():
            moved_text = normalize(evolved + text_residual, dim=1)
            visual = normalize(means + visual_residual, dim=1)
            affinity = positive_alpha * torch.exp(-positive_beta * (1 - visual @ image[0]))
            final = (logit_scale * moved_text @ image[0]).index_add(0, index, affinity)
            if entropy_of(final.softmax(dim=0)) / bits < evolve_threshold:
                updates += 1
                evolved = (updates * evolved + moved_text) / (updates + 1)
            rows["logits"].append(final[None])
    return stack_rows(rows)
