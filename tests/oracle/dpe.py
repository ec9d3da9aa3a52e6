"""DPE: dual prototype evolving (NeurIPS 2024), with torch's autograd and torch's AdamW taking the one step."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from .arithmetic import Vector, logits_and_probabilities
from .caches import Cache, Item, offer_lowest


def run_dpe(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
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
    order: Literal["write_first", "predict_first"] = "write_first",
    query: Literal["plain", "confident_mean"] = "plain",
    dtype: torch.dtype = torch.float64,
) -> dict[str, NDArray[np.float64]]:
    """`logits` and `probabilities`, each (N, C). `query` says which feature the final prediction is made for."""
    images = torch.tensor(np.asarray(views), dtype=dtype)
    evolved = torch.tensor(np.asarray(text_prototypes), dtype=dtype)  # what persists, besides the cache
    classes, confident_images = len(evolved), 0
    cache: Cache = {}
    rows: list[Vector] = []
    for image_views in images:
        text_residual = torch.zeros_like(evolved, requires_grad=True)
        text = normalize(evolved + text_residual, dim=1)
        view_logits = logit_scale * image_views @ text.T
        kept = lowest_entropy(view_logits, view_fraction)
        mean_logits = view_logits[kept].mean(dim=0)
        feature = image_views[kept].mean(dim=0)  # not normalized again
        nats = float(entropy_of(view_logits.detach()[kept].softmax(dim=1).mean(dim=0)))
        item = Item(feature.numpy(), nats)
        label = int(mean_logits.argmax())
        if order == "write_first":
            offer_lowest(cache, label, item, positive_slots)

        present = sorted(own for own, items in cache.items() if items)
        means = [np.mean([kept_item.feature for kept_item in cache[own]], axis=0) for own in present]
        prototypes = torch.tensor(np.array(means).reshape(len(present), evolved.shape[1]), dtype=dtype)
        visual_residual = torch.zeros_like(prototypes, requires_grad=True)
        visual = normalize(prototypes + visual_residual, dim=1)

        logits = add_prototypes(mean_logits, feature, visual, present, positive_alpha, positive_beta)
        loss = entropy_of(logits.softmax(dim=0))
        if present:
            # One direction only: each visual prototype must find its own text among the present classes' texts.
            alike = visual @ text[present].T / temperature
            loss = loss + align_weight * cross_entropy(alike, torch.arange(len(present)))
        groups = [{"params": [text_residual], "lr": lr_text}, {"params": [visual_residual], "lr": lr_image}]
        optimizer = torch.optim.AdamW(groups, eps=adam_eps, weight_decay=weight_decay)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

        with torch.no_grad():
            text = normalize(evolved + text_residual, dim=1)
            visual = normalize(prototypes + visual_residual, dim=1)
            asked = image_views[0] if query == "plain" else feature
            final = add_prototypes(logit_scale * text @ asked, asked, visual, present, positive_alpha, positive_beta)
            rows.append(final.double().numpy())
            if float(entropy_of(final.softmax(dim=0))) / np.log2(classes) < evolve_threshold:
                confident_images += 1  # the text given at the start counts once in the running mean
                evolved = (confident_images * evolved + text) / (confident_images + 1)
        if order == "predict_first":
            offer_lowest(cache, label, item, positive_slots)
    return logits_and_probabilities(rows, classes)


def entropy_of(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum()


def lowest_entropy(view_logits: Tensor, fraction: float) -> Tensor:
    entropies = torch.special.entr(view_logits.softmax(dim=1)).sum(dim=1)
    return entropies.argsort(stable=True)[: max(1, int(fraction * len(entropies)))]


def add_prototypes(
    logits: Tensor, feature: Tensor, visual: Tensor, present: list[int], alpha: float, beta: float
) -> Tensor:
    """Z + A(f V') for the classes that have a visual prototype."""
    term = alpha * torch.exp(-beta * (1 - visual @ feature))
    return logits.index_add(0, torch.tensor(present, dtype=torch.long), term)
