"""MCP++'s one step, compiled, for an image of a single view: its cosines with the prototypes that the step has moved.

The gradients are those of `MCPPlus.gradients`, class by class, so that no (C, d) array of them has to be written.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles, Floats
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE
from trimtab.engine.products import dot
from trimtab.methods.joint_loss import CONTRAST_FLOOR

# Prototypes as near as this are made of the same image. Eq. 9 has no slope there, but rounding times its steep
# logarithm would be taken for one.
SAME = np.float32(1 - 2e-7)


class Prototyped(NamedTuple):
    """The prototypes, (C, d) units and (C,) lengths, and what the align loss says at them."""

    text: Array
    visual: Array
    lengths: Array
    negative: Array
    negative_lengths: Array
    present: NDArray[np.bool_]  # from here on the sums of `Alignment`
    aligned: Floats
    texts_found: Floats
    visuals_found: Floats
    texts_near: Floats  # empty where the loss has one side
    visuals_near: Floats
    near_totals: Doubles


class Step(NamedTuple):
    """The weights of the joint loss, and the length of the step."""

    entropy_weight: np.float32
    align_weight: float  # over the temperature
    contrast_weight: float
    one_sided: bool
    learning_rate: np.float32
    eps: np.float32


@njit(nogil=True, error_model="numpy")
def ask_moved(
    prototyped: Prototyped,
    step: Step,
    feature: Array,
    text_slopes: Array,
    visual_slopes: Array,
    text: Array,
    visual: Array,
) -> None:
    """The feature's cosines with the text and visual prototypes that one step has moved, (C,) each."""
    classes, dim = prototyped.text.shape
    gradient, count = np.empty(dim, np.float32), 0
    for c in range(classes):
        count += prototyped.present[c]
    align = np.float32(step.align_weight / max(count, 1))
    contrast = np.float32(_contrast(prototyped, step.contrast_weight) if step.contrast_weight > 0 else 0.0)
    sides = np.float32(1 if step.one_sided else 2)
    for c in range(classes):
        aligned = align > 0 and prototyped.present[c]
        _start(gradient, text_slopes[c], feature)
        if aligned:  # slope of Eq. 8
            _add(gradient, align, prototyped.visuals_found[c])
            _add(gradient, -sides * align, prototyped.aligned[c])
            if not step.one_sided:
                _add(gradient, np.float32(align / prototyped.near_totals[c]), prototyped.visuals_near[c])
        text[c] = _moved_cosine(prototyped.text[c], np.float32(1), gradient, step, feature)  # Eq. 6, left
        if prototyped.lengths[c] <= 0:
            visual[c] = 0
            continue
        _start(gradient, visual_slopes[c], feature)
        if aligned:
            _add(gradient, align, prototyped.texts_found[c])
            _add(gradient, -sides * align, prototyped.text[c])
            if not step.one_sided:
                _add(gradient, align, prototyped.texts_near[c])
        if contrast != 0 and _pulls(prototyped, c):
            _add(gradient, contrast, prototyped.negative[c])
        visual[c] = _moved_cosine(prototyped.visual[c], prototyped.lengths[c], gradient, step, feature)  # right


@njit(nogil=True)
def _pulls(prototyped: Prototyped, c: int) -> bool:
    """Whether a class's negative prototype has a slope at its visual one."""
    return bool(prototyped.negative_lengths[c] > 0 and dot(prototyped.visual[c], prototyped.negative[c]) < SAME)


@njit(nogil=True)
def _contrast(prototyped: Prototyped, weight: float) -> float:
    """The slope of Eq. 9 at each cosine of a visual with a negative prototype: see `mcp_plus.contrast_term`."""
    count, total = 0, 0.0
    for c in range(len(prototyped.lengths)):
        if prototyped.lengths[c] > 0 and prototyped.negative_lengths[c] > 0:
            count += 1
            total += float(dot(prototyped.visual[c], prototyped.negative[c]))
    count = max(count, 1)
    return weight / (count * (1 - total / count + CONTRAST_FLOOR))  # slope of Eq. 9


@njit(nogil=True)
def _start(gradient: Array, weight: np.float32, feature: Array) -> None:
    for k in range(len(gradient)):
        gradient[k] = weight * feature[k]


@njit(fastmath=VECTORIZE, nogil=True)
def _add(gradient: Array, weight: np.float32, other: Array) -> None:
    for k in range(len(gradient)):
        gradient[k] += weight * other[k]


@njit(nogil=True, error_model="numpy")
def _moved_cosine(unit: Array, length: np.float32, gradient: Array, step: Step, feature: Array) -> np.float32:
    """The feature's cosine with a prototype after one AdamW step (`engine.residuals`); the gradient is written over."""
    along = dot(gradient, unit)
    _step(unit, length, along, np.float32(1) / length, gradient, step.learning_rate, step.eps)
    squared = dot(gradient, gradient)
    return dot(gradient, feature) / np.sqrt(squared) if squared > 0 else np.float32(0)


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _step(
    unit: Array,
    length: np.float32,
    along: np.float32,
    inverse: np.float32,
    row: Array,
    rate: np.float32,
    eps: np.float32,
) -> None:
    for k in range(len(row)):
        slope = (row[k] - along * unit[k]) * inverse
        row[k] = length * unit[k] - rate * slope / (abs(slope) + eps)  # Eq. 6: x + R
