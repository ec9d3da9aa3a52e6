"""MCP++ (ICCV 2025): MCP's caches, then one autograd step on text and visual residuals per image."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.field_style.common import Looked, look, negative_term, stack_rows
from benchmarks.field_style.mcp import Caches, Settings, retrieve, write

CONTRAST_FLOOR = 1e-7


def run(
    views: Tensor,
    text: Tensor,
    *,
    logit_scale: float = 100.0,
    learning_rate: float = 1e-4,
    adam_eps: float = 1e-3,
    weight_decay: float = 0.1,
    align_weight: float = 0.5,
    contrast_weight: float = 0.2,
    temperature: float = 1.0,
    one_sided: bool = False,
    caches: Caches | None = None,
    **parameters: float,
) -> dict[str, Tensor]:
    """The parts `text`, `prototype`, `retrieval`, (N, C) each, read with the stepped prototypes."""
    settings = Settings(**parameters)  # type: ignore[arg-type]
    caches = Caches() if caches is None else caches
    rows: dict[str, list[Tensor]] = {"text": [], "prototype": [], "retrieval": []}
    for image in views:
        with torch.no_grad():
            looked = look(image, text, logit_scale, settings.view_fraction)
            write(caches, image[:1], looked, text, settings)
            against = against_all(caches, image, len(text), settings)
        index = torch.tensor(list(caches.prototypes), dtype=torch.long)
        means = torch.cat(list(caches.prototypes.values())) if caches.prototypes else text[:0]

        text_residual = torch.zeros_like(text, requires_grad=True)
        visual_residual = torch.zeros_like(means, requires_grad=True)
        residuals = [text_residual, visual_residual]
        optimizer = torch.optim.AdamW(residuals, lr=learning_rate, eps=adam_eps, weight_decay=weight_decay)
        moved_text = normalize(text + text_residual, dim=1)
        visual = normalize(means + visual_residual, dim=1)

        loss = entropy_loss(image, moved_text, visual, index, against, logit_scale, settings)
        if len(index):
            alike = moved_text[index] @ visual.T / temperature
            align = (alike.logsumexp(dim=0) - alike.diagonal()).mean()
            if not one_sided:
                align = align + (alike.logsumexp(dim=1) - alike.diagonal()).mean()
            loss = loss + align_weight * align + contrast_weight * contrast_loss(caches, visual)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

        with torch.no_grad():
            moved_text = normalize(text + text_residual, dim=1)
            visual = normalize(means + visual_residual, dim=1)
            rows["text"].append(vote(image, looked, moved_text, logit_scale))
            lifted = full_logits(image[:1], moved_text, visual, index, against[:1], logit_scale, settings)
            rows["prototype"].append(lifted.softmax(dim=1))
            rows["retrieval"].append(retrieve(caches, image[:1], text, logit_scale, settings.retrieval_beta))
    return stack_rows(rows)


def against_all(caches: Caches, image: Tensor, classes: int, settings: Settings) -> Tensor:
    alpha, beta = settings.negative_alpha, settings.negative_beta
    return negative_term(image, caches.negative, classes, alpha, beta, settings.mask_low, settings.mask_high)


def full_logits(
    features: Tensor,
    text: Tensor,
    visual: Tensor,
    index: Tensor,
    against: Tensor,
    logit_scale: float,
    settings: Settings,
) -> Tensor:
    affinity = settings.positive_alpha * torch.exp(-settings.positive_beta * (1 - features @ visual.T))
    return (logit_scale * features @ text.T - against).index_add(1, index, affinity)


def entropy_loss(
    image: Tensor,
    text: Tensor,
    visual: Tensor,
    index: Tensor,
    against: Tensor,
    logit_scale: float,
    settings: Settings,
) -> Tensor:
    probabilities = full_logits(image, text, visual, index, against, logit_scale, settings).softmax(dim=1)
    entropies = torch.special.entr(probabilities.detach()).sum(dim=1)
    kept = entropies.argsort(stable=True)[: max(1, int(settings.view_fraction * len(image)))]
    return torch.special.entr(probabilities[kept].mean(dim=0)).sum()


def contrast_loss(caches: Caches, visual: Tensor) -> Tensor:
    rows = [row for row, label in enumerate(caches.prototypes) if caches.negative.get(label)]
    if not rows:
        return torch.zeros(())
    labels = list(caches.prototypes)
    means = [torch.cat([item.feature for item in caches.negative[labels[row]]]).mean(dim=0) for row in rows]
    cosines = (normalize(torch.stack(means), dim=1) * visual[rows]).sum(dim=1)
    return -torch.log(1 - cosines.mean() + CONTRAST_FLOOR)


def vote(image: Tensor, looked: Looked, text: Tensor, logit_scale: float) -> Tensor:
    return (logit_scale * image[looked.kept] @ text.T).softmax(dim=1).mean(dim=0, keepdim=True)
