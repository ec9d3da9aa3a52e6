"""Residual learning in closed form: the gradient of a prediction's entropy, and one step along it.

MCP++, DPE and TPS add a residual to each prototype, take one AdamW step on it per image, and throw it away. From zero
the step is a formula of the gradient, and the gradients have closed forms, so no automatic differentiation is needed.
All functions keep the precision of what they are given; the tests use that to compare with autograd in float64.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import residual_kernels as kernels
from trimtab.engine.equations import softmax

Precision = TypeVar("Precision", bound=np.floating[Any])
Floats = NDArray[np.floating[Any]]
Terms = Sequence[tuple[Floats, Floats]]  # (C,) scales and (C, d) vectors: what further losses add, class by class

MOST_TERMS = 4


def entropy_slopes(logits: NDArray[Precision]) -> NDArray[Precision]:
    """The gradient of H(mean of the rows' softmax) with respect to each row's logits. (K, C) -> (K, C)  # Eq. 7

    With q the mean: dH/dq_c = -(log q_c + 1), and softmax turns a slope a into p (a - <p, a>). In float64 inside: sure
    views leave slopes of 1e-8, of which AdamW makes full steps, and float32 would leave nothing but noise there.
    """
    probabilities = softmax(logits.astype(np.float64))
    mean = probabilities.mean(axis=0)
    logarithm = np.log(mean, where=mean > 0, out=np.zeros_like(mean))  # where the mean is 0, every p is
    slopes = -probabilities * (logarithm - (probabilities @ logarithm)[:, None]) / len(logits)
    return slopes.astype(logits.dtype)


def residual_gradients(
    units: NDArray[Precision], lengths: Floats, coefficients: Floats, features: Floats, terms: Terms = ()
) -> NDArray[Precision]:
    """(C, d): the gradient at the residual of each prototype x_c = lengths_c units_c.

    The loss enters by its gradient at the unit vectors: `coefficients` (K, C) times `features` (K, d), plus the terms.
    """
    scales = np.zeros((MOST_TERMS, len(units)), units.dtype)
    vectors: list[Floats] = [units] * MOST_TERMS  # a stand-in where the scale is 0
    for place, (scale, vector) in enumerate(terms):
        scales[place], vectors[place] = scale, vector
    out = np.empty_like(units)
    kernels.tangent_gradients(units, lengths, coefficients, features, scales, tuple(vectors), out)
    return out


def one_step(
    units: NDArray[Precision], lengths: Floats, gradients: Floats, learning_rate: float, eps: float
) -> NDArray[Precision]:
    """(C, d): the unit prototypes after one AdamW step of their residuals from zero."""
    out = np.empty_like(units)
    number = units.dtype.type
    kernels.stepped_rows(units, lengths, gradients, number(learning_rate), number(eps), out)
    return out
