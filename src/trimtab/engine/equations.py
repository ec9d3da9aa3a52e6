"""The formulas that the methods share, one pure function each, named in words.

Everything works along the last axis, so one function serves one image (C,), a block (B, C) and its views (B, V, C).
Entropies are in nats. The field's thresholds are stated in "nats divided by log2 C" (see `normalized_entropy`).
"""

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array


def softmax(logits: Array) -> Array:
    """Probabilities from logits."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    exponentials /= exponentials.sum(axis=-1, keepdims=True)  # Eq. 1
    return exponentials


def entropy(probabilities: Array) -> Array:
    """Shannon entropy in nats; 0 log 0 is 0."""
    logarithms = np.log(probabilities, where=probabilities > 0, out=np.zeros_like(probabilities))
    result: Array = -np.einsum("...c,...c->...", probabilities, logarithms)
    return result


def normalized_entropy(entropy_in_nats: float, classes: int) -> float:
    """The field's unit: nats over log2 C, so the range is [0, ln 2] and not [0, 1].

    TDA, DPE, BoostAdapter and MCP all state their thresholds (0.1, 0.2, 0.5) in this unit.
    """
    return entropy_in_nats / math.log2(classes)


def confident_count(views: int, fraction: float) -> int:
    """How many views are kept: the floor of the fraction, but at least one (the released code's floor can be none)."""
    return max(1, math.floor(fraction * views + 1e-9))  # 0.1 * 30 is 2.9999... in floating point


def confident_views(entropies: Array, fraction: float) -> NDArray[np.intp]:
    """Indices of the kept views, most confident first; ties go to the earlier view. (B, V) -> (B, kept)."""
    kept = confident_count(entropies.shape[-1], fraction)
    return np.argsort(entropies, axis=-1, kind="stable")[..., :kept]


def affinity(similarities: Array, alpha: float, beta: float) -> Array:
    """A(x) = alpha exp(-beta (1 - x)): how strongly a stored item speaks, by its similarity."""
    result = np.multiply(similarities, np.float32(beta))
    result -= np.float32(beta)
    np.exp(result, out=result)  # A(x), below Eq. 3
    if alpha != 1.0:
        result *= np.float32(alpha)
    return result
