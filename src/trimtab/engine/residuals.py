"""Residual learning in closed form: the gradient of a prediction's entropy, and one step along it.

MCP++, DPE and TPS add a residual to each prototype, take one AdamW step on it per image, and throw it away. From zero
the step is a formula of the gradient, and the gradients have closed forms, so no automatic differentiation is needed.
All functions keep the precision of what they are given; the tests use that to compare with autograd in float64.

The loops behind them stand at the end. Rows are sliced before they are walked, and the loop over the dimensions is
innermost: it becomes vector instructions. Divisions follow NumPy (no exception for a zero), since a branch in the loop
would keep it scalar.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Floats
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE

Precision = TypeVar("Precision", bound=np.floating[Any])
Terms = Sequence[tuple[Floats, Floats]]  # (C,) scales and (C, d) vectors: what further losses add, class by class

MOST_TERMS = 4


def entropy_slopes(logits: NDArray[Precision]) -> NDArray[Precision]:
    """The gradient of H(mean of the rows' softmax) with respect to each row's logits. (K, C) -> (K, C)

    With q the mean: dH/dq_c = -(log q_c + 1), and softmax turns a slope a into p (a - <p, a>). In float64 inside: sure
    views leave slopes of 1e-8, of which AdamW makes full steps, and float32 would leave nothing but noise there.
    """
    slopes = np.empty_like(logits)
    _entropy_slopes(logits, slopes)
    return slopes


def residual_gradients(
    units: NDArray[Precision], lengths: Floats, coefficients: Floats, features: Floats, terms: Terms = ()
) -> NDArray[Precision]:
    """(C, d): the gradient at the residual of each prototype x_c = lengths_c units_c.

    The loss enters by its gradient at the unit vectors: `coefficients` (K, C) times `features` (K, d), plus the terms.
    """
    scales = np.zeros((MOST_TERMS, len(units)), units.dtype)
    vectors: list[Any] = [units] * MOST_TERMS  # a stand-in where the scale is 0
    for place, (scale, vector) in enumerate(terms):
        scales[place], vectors[place] = scale, vector
    out = np.empty_like(units)
    _tangent_gradients(units, lengths, coefficients, features, scales, tuple(vectors), out)
    return out


def one_step(
    units: NDArray[Precision], lengths: Floats, gradients: Floats, learning_rate: float, eps: float
) -> NDArray[Precision]:
    """(C, d): the unit prototypes after one AdamW step of their residuals from zero."""
    out = np.empty_like(units)
    number = units.dtype.type
    _stepped_rows(units, lengths, gradients, number(learning_rate), number(eps), out)
    return out


@njit(error_model="numpy", nogil=True)
def _entropy_slopes(logits: Floats, slopes: Floats) -> None:
    views, classes = logits.shape
    probabilities, logarithms = np.empty((views, classes)), np.zeros(classes)
    for n in range(views):
        highest, total = logits[n].max(), 0.0
        for c in range(classes):
            probabilities[n, c] = np.exp(np.float64(logits[n, c]) - highest)
            total += probabilities[n, c]
        for c in range(classes):
            probabilities[n, c] /= total
            logarithms[c] += probabilities[n, c] / views
    for c in range(classes):
        logarithms[c] = np.log(logarithms[c]) if logarithms[c] > 0 else 0.0  # where the mean is 0, every p is
    for n in range(views):
        usual = 0.0
        for c in range(classes):
            usual += probabilities[n, c] * logarithms[c]
        for c in range(classes):
            slopes[n, c] = -probabilities[n, c] * (logarithms[c] - usual) / views  # slope of Eq. 7


@njit(error_model="numpy", nogil=True)
def slopes_of_entropy(logits: Floats, probabilities: Floats, slopes: Floats) -> None:
    """The same for a single row (C,); `probabilities` is room in float64."""
    highest, total, usual = logits.max(), 0.0, 0.0
    for c in range(len(logits)):
        probabilities[c] = np.exp(np.float64(logits[c]) - highest)
        total += probabilities[c]
    for c in range(len(logits)):
        probabilities[c] /= total
        usual += probabilities[c] * np.log(probabilities[c]) if probabilities[c] > 0 else 0.0
    for c in range(len(logits)):
        logarithm = np.log(probabilities[c]) if probabilities[c] > 0 else 0.0
        slopes[c] = -probabilities[c] * (logarithm - usual)  # slope of Eq. 7


@njit(fastmath=VECTORIZE, error_model="numpy", nogil=True)
def _tangent_gradients(
    units: Floats,
    lengths: Floats,
    coefficients: Floats,
    features: Floats,
    scales: Floats,
    terms: tuple[Floats, Floats, Floats, Floats],
    out: Floats,
) -> None:
    """The gradient at each row's residual, from the gradient at its unit vector u = x / |x|.

    g_c = sum_n coefficients[n, c] features[n] + sum_i scales[i, c] terms[i][c]
    out_c = (g_c - <g_c, u_c> u_c) / |x_c|                     what normalizing lets through; 0 for a row of length 0
    """
    zero = units.dtype.type(0)
    for c in range(len(units)):
        row = out[c]
        row[:] = zero
        if lengths[c] <= zero:
            continue
        for n in range(len(features)):
            weight = coefficients[n, c]
            if weight != zero:
                other = features[n]
                for k in range(len(row)):
                    row[k] += weight * other[k]
        for i in range(4):
            weight = scales[i, c]
            if weight != zero:
                other = terms[i][c]
                for k in range(len(row)):
                    row[k] += weight * other[k]
        unit = units[c]
        along = zero
        for k in range(len(row)):
            along += row[k] * unit[k]
        inverse = units.dtype.type(1) / lengths[c]
        for k in range(len(row)):
            row[k] = (row[k] - along * unit[k]) * inverse


@njit(fastmath=VECTORIZE, error_model="numpy", nogil=True)
def _stepped_rows(
    units: Floats,
    lengths: Floats,
    gradients: Floats,
    learning_rate: np.floating[Any],
    eps: np.floating[Any],
    out: Floats,
) -> None:
    """Each row after one AdamW step of its residual from zero, made unit again.

    From zero and with a fresh state the step is exactly -lr g / (|g| + eps) in every coordinate: both moments are
    corrected to g and g^2, and there is nothing to decay.
    """
    zero = units.dtype.type(0)
    for c in range(len(units)):
        row, unit, gradient = out[c], units[c], gradients[c]
        length = lengths[c]
        squared = zero
        for k in range(len(row)):
            row[k] = length * unit[k] - learning_rate * gradient[k] / (abs(gradient[k]) + eps)  # Eq. 6: x + R
        for k in range(len(row)):  # a sum in a loop that writes nothing: see `kernels.softmax_in_place`
            squared += row[k] * row[k]
        if squared > zero:
            inverse = units.dtype.type(1) / np.sqrt(squared)
            for k in range(len(row)):
                row[k] *= inverse


@njit(fastmath=VECTORIZE, error_model="numpy", nogil=True)
def exchange(target: Floats, gained: Floats, new: Floats, lost: Floats, old: Floats) -> None:
    """target_c += gained_c new - lost_c old, for all rows in one pass: an item leaves a weighted sum, another joins."""
    for c in range(len(target)):
        row = target[c]
        plus, minus = gained[c], lost[c]
        for k in range(len(row)):
            row[k] += plus * new[k] - minus * old[k]
