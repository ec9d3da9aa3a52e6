"""The loops behind the residual methods. All work in the precision of the arrays they are given.

Rows are sliced before they are walked, and the loop over the dimensions is innermost: it becomes vector instructions.
Divisions follow NumPy (no exception for a zero), since a branch in the loop would keep it scalar.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Float = np.floating[Any]
Floats = NDArray[Float]

_VECTORISE = {"reassoc", "contract", "nsz"}


@njit(cache=True, fastmath=_VECTORISE, error_model="numpy", nogil=True)
def tangent_gradients(
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
    out_c = (g_c - <g_c, u_c> u_c) / |x_c|                     what normalising lets through; 0 for a row of length 0
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


@njit(cache=True, fastmath=_VECTORISE, error_model="numpy", nogil=True)
def stepped_rows(
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
            moved = length * unit[k] - learning_rate * gradient[k] / (abs(gradient[k]) + eps)
            row[k] = moved
            squared += moved * moved
        if squared > zero:
            inverse = units.dtype.type(1) / np.sqrt(squared)
            for k in range(len(row)):
                row[k] *= inverse


@njit(cache=True, fastmath=_VECTORISE, error_model="numpy", nogil=True)
def exchange(target: Floats, gained: Floats, new: Floats, lost: Floats, old: Floats) -> None:
    """target_c += gained_c new - lost_c old, for all rows in one pass: an item leaves a weighted sum, another joins."""
    for c in range(len(target)):
        row = target[c]
        plus, minus = gained[c], lost[c]
        for k in range(len(row)):
            row[k] += plus * new[k] - minus * old[k]
