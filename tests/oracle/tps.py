"""TPS: test-time prototype shifting (WACV 2025): one shift per class, learned per image by torch's autograd."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.functional import normalize

from .arithmetic import Vector, logits_and_probabilities
from .dpe import entropy_of, lowest_entropy


def run_tps(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    learning_rate: float = 5e-3,
    adam_eps: float = 1e-8,
    weight_decay: float = 0.01,
    view_fraction: float = 0.1,
    dtype: torch.dtype = torch.float64,
) -> dict[str, NDArray[np.float64]]:
    """`logits` and `probabilities`, each (N, C), of the plain view under the shifted text prototypes."""
    text = torch.tensor(np.asarray(text_prototypes), dtype=dtype)
    rows: list[Vector] = []
    for image_views in torch.tensor(np.asarray(views), dtype=dtype):
        shift = torch.zeros_like(text, requires_grad=True)  # nothing is carried over from the image before
        view_logits = logit_scale * image_views @ normalize(text + shift, dim=1).T
        kept = lowest_entropy(view_logits.detach(), view_fraction)
        loss = entropy_of(view_logits[kept].softmax(dim=1).mean(dim=0))
        optimizer = torch.optim.AdamW([shift], lr=learning_rate, eps=adam_eps, weight_decay=weight_decay)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            logits = logit_scale * normalize(text + shift, dim=1) @ image_views[0]
        rows.append(logits.double().numpy())
    return logits_and_probabilities(rows, len(text))
