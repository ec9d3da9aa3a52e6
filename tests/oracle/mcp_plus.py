"""MCP++ (ICCV 2025): MCP's caches, then one AdamW step on text and visual residuals, by torch's autograd.

Equations 6 to 10 of the paper. The caches are those of the MCP oracle. The residuals live for one image only.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import normalize

from .arithmetic import Vector, as_images, as_vectors, confident_views, logits_of, mean_vector, normalized, stacked
from .dpe import entropy_of, lowest_entropy
from .mcp import Caches, Image, Parameters, look_at, retrieval_part, write
from .tda import negative_term

CONTRAST_FLOOR = 1e-7  # the paper's epsilon inside the logarithm of Eq. 9


@dataclass(frozen=True)
class Situation:
    """Everything the losses look at for one image, after the caches were written."""

    views: Tensor  # (V, d)
    text: Tensor  # (C, d), unit
    visual: Tensor  # (P, d): means of the cached features of the classes present, not normalized
    present: list[int]
    negative_means: dict[int, Tensor]  # class -> mean feature of its negative cache
    against: Tensor  # (V, C): the negative term of Eq. 4 for every view


@dataclass(frozen=True)
class Objective:
    logit_scale: float
    positive_alpha: float
    positive_beta: float
    losses: Collection[str] = ("entropy", "align", "contrast")
    align_weight: float = 0.5
    contrast_weight: float = 0.2
    temperature: float = 1.0
    one_sided: bool = False
    view_fraction: float = 0.1


def run_mcp_plus(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    entropy_slots: int = 10,
    align_slots: int = 10,
    negative_slots: int = 3,
    positive_alpha: float = 2.0,
    positive_beta: float = 5.0,
    negative_alpha: float = 0.117,
    negative_beta: float = 1.0,
    entropy_low: float = 0.2,
    entropy_high: float = 0.5,
    mask_low: float = 0.03,
    mask_high: float = 1.0,
    center_weight: float = 0.8,
    retrieval_beta: float = 5.5,
    promotion: bool = True,
    view_fraction: float = 0.1,
    order: Literal["write_first", "predict_first"] = "write_first",
    query: Literal["plain", "confident_mean"] = "plain",
    learning_rate: float = 1e-4,
    adam_eps: float = 1e-3,
    weight_decay: float = 0.1,
    losses: Collection[str] = ("entropy", "align", "contrast"),
    align_weight: float = 0.5,
    contrast_weight: float = 0.2,
    temperature: float = 1.0,
    one_sided: bool = False,
    evolve_text: bool = False,
    evolve_threshold: float = 0.1,
    dtype: torch.dtype = torch.float64,
) -> dict[str, NDArray[np.float64]]:
    """The parts `text`, `prototype`, `retrieval`, each (N, C) probabilities, read with the stepped prototypes."""
    parameters = Parameters(
        entropy_slots,
        align_slots,
        negative_slots,
        positive_alpha,
        positive_beta,
        negative_alpha,
        negative_beta,
        entropy_low,
        entropy_high,
        mask_low,
        mask_high,
        center_weight,
        retrieval_beta,
        promotion,
    )
    objective = Objective(
        logit_scale,
        positive_alpha,
        positive_beta,
        losses,
        align_weight,
        contrast_weight,
        temperature,
        one_sided,
        view_fraction,
    )
    given = as_vectors(text_prototypes)  # what the caches and the retrieval know of the text
    evolved = given
    classes, confident_images = len(evolved), 0
    caches = Caches()
    rows: dict[str, list[Vector]] = {"text": [], "prototype": [], "retrieval": []}
    for image_views in as_images(views):
        text = [normalized(prototype) for prototype in evolved]
        image = look_at(image_views, text, logit_scale, view_fraction, query)
        if order == "write_first":
            write(caches, image, given, parameters)

        situation = look_around(image_views, text, caches, parameters, dtype)
        residuals = one_step(situation, objective, learning_rate, adam_eps, weight_decay)
        new_text, new_visual = moved(situation, *residuals)
        new_rows = as_vectors(new_text.double().numpy())

        kept = confident_views([logits_of(view, text, logit_scale) for view in image_views], view_fraction)
        kept_features = torch.tensor(np.array([image_views[view] for view in kept]), dtype=dtype)
        rows["text"].append((logit_scale * kept_features @ new_text.T).softmax(dim=1).mean(dim=0).double().numpy())
        prototype = prototype_part(image, situation, new_text, new_visual, caches, parameters, logit_scale)
        rows["prototype"].append(prototype.double().numpy())
        rows["retrieval"].append(retrieval_part(caches, image, given, logit_scale, retrieval_beta))

        if evolve_text and float(entropy_of(prototype)) / np.log2(classes) < evolve_threshold:
            confident_images += 1  # the text given at the start counts once in the running mean
            share = 1.0 / (confident_images + 1)
            evolved = [(1.0 - share) * old + share * new for old, new in zip(evolved, new_rows, strict=True)]
        if order == "predict_first":
            write(caches, image, given, parameters)
    return {part: stacked(part_rows, classes) for part, part_rows in rows.items()}


def look_around(
    image_views: Sequence[Vector], text: Sequence[Vector], caches: Caches, parameters: Parameters, dtype: torch.dtype
) -> Situation:
    present = [label for label in range(len(text)) if caches.features(label)]
    means = [mean_vector(caches.features(label)) for label in present]
    negative_means = {
        label: torch.tensor(mean_vector([item.feature for item in items]), dtype=dtype)
        for label, items in caches.negative.items()
        if items
    }
    against = [negative_part(caches, view, len(text), parameters) for view in image_views]
    return Situation(
        views=torch.tensor(np.array(image_views), dtype=dtype),
        text=torch.tensor(np.array(text), dtype=dtype),
        visual=torch.tensor(np.array(means).reshape(len(present), len(text[0])), dtype=dtype),
        present=present,
        negative_means=negative_means,
        against=torch.tensor(np.array(against), dtype=dtype),
    )


def negative_part(caches: Caches, feature: Vector, classes: int, parameters: Parameters) -> Vector:
    alpha, beta = parameters.negative_alpha, parameters.negative_beta
    return negative_term(caches.negative, feature, classes, alpha, beta, parameters.mask_low, parameters.mask_high)


def one_step(
    situation: Situation, objective: Objective, learning_rate: float, adam_eps: float, weight_decay: float
) -> tuple[Tensor, Tensor]:
    """The residuals after one AdamW step from zero with a fresh state."""
    text_residual = torch.zeros_like(situation.text, requires_grad=True)
    visual_residual = torch.zeros_like(situation.visual, requires_grad=True)
    parameters = [text_residual, visual_residual]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, eps=adam_eps, weight_decay=weight_decay)
    loss = total_loss(situation, objective, text_residual, visual_residual)
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return text_residual.detach(), visual_residual.detach()


def moved(situation: Situation, text_residual: Tensor, visual_residual: Tensor) -> tuple[Tensor, Tensor]:
    text = normalize(situation.text + text_residual, dim=1)  # Eq. 6
    visual = normalize(situation.visual + visual_residual, dim=1)
    return text, visual


def total_loss(situation: Situation, objective: Objective, text_residual: Tensor, visual_residual: Tensor) -> Tensor:
    text, visual = moved(situation, text_residual, visual_residual)
    loss = torch.zeros((), dtype=situation.text.dtype)
    if "entropy" in objective.losses:
        loss = loss + entropy_loss(situation, objective, text, visual)  # Eq. 10
    if "align" in objective.losses and situation.present:
        loss = loss + objective.align_weight * align_loss(situation, objective, text, visual)
    if "contrast" in objective.losses:
        loss = loss + objective.contrast_weight * contrast_loss(situation, visual)
    return loss


def entropy_loss(situation: Situation, objective: Objective, text: Tensor, visual: Tensor) -> Tensor:
    """Eq. 7: the entropy of the mean prediction over the confident views."""
    logits = objective.logit_scale * situation.views @ text.T - situation.against
    likeness = situation.views @ visual.T
    term = objective.positive_alpha * torch.exp(-objective.positive_beta * (1 - likeness))
    logits = logits.index_add(1, torch.tensor(situation.present, dtype=torch.long), term)
    kept = lowest_entropy(logits.detach(), objective.view_fraction)
    return entropy_of(logits[kept].softmax(dim=1).mean(dim=0))


def align_loss(situation: Situation, objective: Objective, text: Tensor, visual: Tensor) -> Tensor:
    """Eq. 8: InfoNCE between each class's text and visual prototype, over the classes that have one."""
    alike = text[situation.present] @ visual.T / objective.temperature
    own = alike.diagonal()
    total = (alike.logsumexp(dim=0) - own).mean()  # each visual prototype among all texts
    if not objective.one_sided:
        total = total + (alike.logsumexp(dim=1) - own).mean()  # each text among all visual prototypes
    return total


def contrast_loss(situation: Situation, visual: Tensor) -> Tensor:
    """Eq. 9: away from the negative items of the same class, over the classes that have both."""
    cosines = [
        normalize(situation.negative_means[label], dim=0) @ visual[row]
        for row, label in enumerate(situation.present)
        if label in situation.negative_means
    ]
    if not cosines:
        return torch.zeros((), dtype=visual.dtype)
    return -torch.log(1 - torch.stack(cosines).mean() + CONTRAST_FLOOR)


def prototype_part(
    image: Image,
    situation: Situation,
    text: Tensor,
    visual: Tensor,
    caches: Caches,
    parameters: Parameters,
    logit_scale: float,
) -> Tensor:
    feature = torch.tensor(image.query, dtype=text.dtype)
    logits = logit_scale * text @ feature
    term = parameters.positive_alpha * torch.exp(-parameters.positive_beta * (1 - visual @ feature))
    logits = logits.index_add(0, torch.tensor(situation.present, dtype=torch.long), term)
    against = negative_part(caches, image.query, len(text), parameters)
    return (logits - torch.tensor(against, dtype=text.dtype)).softmax(dim=0)
