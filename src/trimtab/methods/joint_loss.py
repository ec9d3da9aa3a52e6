"""MCP++'s joint loss as a number, written as the paper prints it: Eqs. 6 to 10 in plain NumPy.

Nothing on the way of a prediction calls this: MCP++ needs only the gradient, which has a closed form (mcp_plus.py). It
is here to be read beside the paper, and the tests differentiate it numerically to check the closed form.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Doubles

CONTRAST_FLOOR = 1e-7  # the paper's epsilon inside the logarithm of Eq. 9


@dataclass(frozen=True, eq=False)
class LossInputs:
    """Everything that the loss of one image depends on besides the residuals. All in float64."""

    views: Doubles  # (K, d) features of the confident views
    text: Doubles  # (C, d) unit text prototypes t_c
    visual: Doubles  # (C, d) visual prototypes v_c, zero rows for classes without items
    negative: Doubles  # (C, d) means of the negative items, zero rows for classes without
    against: Doubles  # (K, C) what the negative cache says of each view
    logit_scale: float
    alpha: float  # of A(x)
    beta: float


@dataclass(frozen=True)
class LossWeights:
    """lambda and gamma of Eq. 10, and the two choices that the paper leaves open for Eq. 8."""

    entropy: float = 1.0
    align: float = 0.5
    contrast: float = 0.2
    temperature: float = 1.0
    one_sided: bool = False


def joint_loss(inputs: LossInputs, text_residual: Doubles, visual_residual: Doubles, weights: LossWeights) -> float:
    """L at residuals R_t and R_v, (C, d) each."""
    holds_items = np.any(inputs.visual != 0, axis=1)
    text = _unit(inputs.text + text_residual)  # Eq. 6, left
    visual = np.where(holds_items[:, None], _unit(inputs.visual + visual_residual), 0)  # Eq. 6, right
    return (
        weights.entropy * entropy_loss(inputs, text, visual, holds_items)
        + weights.align * align_loss(text[holds_items], visual[holds_items], weights)
        + weights.contrast * contrast_loss(visual, inputs.negative)
    )  # Eq. 10


def entropy_loss(inputs: LossInputs, text: Doubles, visual: Doubles, holds_items: NDArray[np.bool_]) -> float:
    """The entropy of the confident views' mean prediction."""
    support = inputs.alpha * np.exp(-inputs.beta * (1 - inputs.views @ visual.T)) * holds_items
    logits = inputs.logit_scale * inputs.views @ text.T + support - inputs.against
    mean = _softmax(logits).mean(axis=0)
    return float(-(mean[mean > 0] * np.log(mean[mean > 0])).sum())  # Eq. 7


def align_loss(text: Doubles, visual: Doubles, weights: LossWeights) -> float:
    """InfoNCE between the texts and the visual prototypes of the classes that hold items, in both directions."""
    if not len(text):
        return 0.0
    matches = text @ visual.T / weights.temperature  # rows: texts; columns: prototypes
    among_texts = -np.log(np.diag(_softmax(matches.T))).mean()
    if weights.one_sided:
        return float(among_texts)
    among_prototypes = -np.log(np.diag(_softmax(matches))).mean()
    return float(among_texts + among_prototypes)  # Eq. 8


def contrast_loss(visual: Doubles, negative: Doubles) -> float:
    """How near the visual prototypes are to the negative items, over the classes that have both."""
    both = np.any(visual != 0, axis=1) & np.any(negative != 0, axis=1)
    if not both.any():
        return float(-np.log(1 + CONTRAST_FLOOR))
    cosines = (_unit(visual[both]) * _unit(negative[both])).sum(axis=1)
    return float(-np.log(1 - cosines.mean() + CONTRAST_FLOOR))  # Eq. 9


def _unit(rows: Doubles) -> Doubles:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _softmax(logits: Doubles) -> Doubles:
    exponentials: Doubles = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
