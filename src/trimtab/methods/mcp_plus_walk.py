"""MCP++ for a block of single views, compiled: `MCPPlus.step` image after image, the same writes and the same parts.

An image is offered to the caches as MCP does it, and the prototypes of the classes that it changed are renewed. Where a
visual prototype has changed, the loop stops: the align loss follows in Python (`engine.alignment`), and the loop goes
on with the image's answer. Most images change nothing, so a block stops a few times. With one view there is nothing to
choose among views: the image's own feature is all that the entropy's slope runs along, and all that is asked.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door
from trimtab.engine.alignment import Alignment
from trimtab.engine.arrays import Array, Doubles, Floats
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, exp, softmax_in_place
from trimtab.engine.leveling import level_row, pull_back_row
from trimtab.engine.moving_text import RunningText
from trimtab.engine.products import dot
from trimtab.engine.prototypes import Prototypes, renew_one
from trimtab.engine.residuals import slopes_of_entropy
from trimtab.engine.tables import ReadOuts, Slots, Visit
from trimtab.fusion.strength import learn_strength, slope_of, usual_of
from trimtab.methods.joint_loss import CONTRAST_FLOOR
from trimtab.methods.three_caches_walk import Figures, Looks, Rules, write

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


class Names(NamedTuple):
    """How loudly the names speak: see `engine.leveling`."""

    even: bool
    gains: Array  # (C,)
    offsets: Array  # (C,)


class Room(NamedTuple):
    """Room for one image, (C,) each but the last."""

    scratch: Array
    cosines: Array
    slopes: Array
    probabilities: Doubles
    changed: NDArray[np.bool_]  # classes whose visual prototype the image at hand has changed
    written: NDArray[np.int64]  # (1,): the image that was written last, whose answer may be still to come


def names_of(block: Block) -> Names:
    """How loudly the names speak of a block's images."""
    if block.temper is None:
        classes = block.logits.shape[1]
        return Names(True, np.ones(classes, np.float32), np.zeros(classes, np.float32))
    level = block.temper.level
    return Names(level.is_even, level.gains, level.offsets)


def room_for(block: Block) -> Room:
    """Room for one image."""
    classes = block.logits.shape[1]
    scratch, cosines, slopes = np.empty((3, classes), np.float32)
    return Room(scratch, cosines, slopes, np.empty(classes), np.zeros(classes, np.bool_), np.full(1, -1, np.int64))


def parts_for(block: Block) -> tuple[Array, Array, Array]:
    """Room for the three parts of a block, (B, C) each."""
    text, prototype, retrieval = np.empty((3, *block.logits.shape), np.float32)
    return text, prototype, retrieval


def stretches(learned: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First and last (exclusive) of images that are learned from in a row; each of the others by itself."""
    first = 0
    while first < len(learned):
        last = first + 1
        while learned[first] and last < len(learned) and learned[last]:
            last += 1
        yield first, last
        first = last


def follow(room: Room, visual: Prototypes, alignment: Alignment, *, settles: bool) -> None:
    """Let the align loss follow the visual prototypes that have changed."""
    for label in np.flatnonzero(room.changed).tolist():
        alignment.write(label, visual.units[label])
    room.changed[:] = False
    if settles:
        alignment.settle()


def prototyped_by(text: RunningText, visual: Prototypes, negative: Prototypes, alignment: Alignment) -> Prototyped:
    """The prototypes and the sums of the align loss as the loop takes them: live arrays, which stay the same."""
    return Prototyped(
        text.units,
        visual.units,
        visual.lengths,
        negative.units,
        negative.lengths,
        alignment.present,
        alignment.units,
        alignment.texts_found,
        alignment.visuals_found,
        alignment.texts_near,
        alignment.visuals_near,
        alignment.near_totals,
    )


@njit(nogil=True)
def walk(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    looks: Looks,
    rules: Rules,
    figures: Figures,
    names: Names,
    prototyped: Prototyped,
    step: Step,
    room: Room,
    text: Array,
    prototype: Array,
    retrieval: Array,
    first: int,
    last: int,
) -> int:
    """Take in the images first..last and write their parts, (B, C) each; the image that changed a visual prototype,
    with which it is called again once the align loss has followed, or `last`.
    """
    for row in range(first, last):
        if row != room.written[0]:
            write(bank, readouts, visit, looks, rules, figures, row, room.scratch)
            room.written[0] = row
            if _renew(bank, rules, prototyped, row, room.changed):
                return row
        _answer(readouts, looks, figures, names, prototyped, step, room, row, text[row], prototype[row], retrieval[row])
        if not visit.learned[row]:
            door.take_back(bank, readouts, visit, row)
    return last


@njit(nogil=True)
def _renew(bank: Slots, rules: Rules, prototyped: Prototyped, row: int, changed: NDArray[np.bool_]) -> bool:
    """Renew the prototypes of the classes that image `row` was written to; whether a visual one was among them."""
    position, stopped = bank.first + row, False
    for c in range(len(bank.sources)):
        changed[c] = _holds(bank.sources[c, 1 : rules.negative_start], position)
        if changed[c]:
            stopped = True
            places = bank.rows.places[c, 1 : rules.negative_start]
            prototyped.lengths[c] = renew_one(bank.rows.features, places, prototyped.visual[c])
        if _holds(bank.sources[c, rules.negative_start : rules.stop], position):
            places = bank.rows.places[c, rules.negative_start :]
            prototyped.negative_lengths[c] = renew_one(bank.rows.features, places, prototyped.negative[c])
    return stopped


@njit(nogil=True)
def _holds(sources: NDArray[np.int64], position: int) -> bool:
    found = 0
    for k in range(len(sources)):
        found += sources[k] == position
    return found > 0


@njit(nogil=True)
def _answer(
    readouts: ReadOuts,
    looks: Looks,
    figures: Figures,
    names: Names,
    prototyped: Prototyped,
    step: Step,
    room: Room,
    row: int,
    text: Array,
    prototype: Array,
    retrieval: Array,
) -> None:
    """The parts of an image that has been written, (C,) each: see `MCPPlus._answer`."""
    lengths, feature = prototyped.lengths, looks.plain[row]
    visual, against, retrieved = readouts.means.table, readouts.penalties.table, readouts.retrieved.table
    cosines, slopes, scale, logits = room.cosines, room.slopes, looks.scales[row], looks.logits[row]
    for c in range(len(cosines)):
        cosines[c] = visual[c, row]
        retrieval[c] = scale * retrieved[c, row]
    slope, usual = np.float32(0), np.float32(0)
    if figures.matched:
        learn_strength(figures.strength, looks.probabilities[row], logits, cosines, lengths > 0)
        slope, usual = np.float32(slope_of(figures.strength, len(cosines))), np.float32(usual_of(figures.strength))
    for c in range(len(cosines)):
        cosine = cosines[c] / lengths[c] if lengths[c] > 0 else np.float32(0)
        support = _support(cosine, lengths[c], slope, usual, figures)
        prototype[c] = logits[c] + support - against[c, row]
        room.scratch[c] = slope * lengths[c] if figures.matched else figures.beta * support  # A' = beta A
    slopes_of_entropy(prototype, room.probabilities, slopes)  # slope of Eq. 7
    for c in range(len(slopes)):
        slopes[c] *= step.entropy_weight
        room.scratch[c] *= slopes[c]
        slopes[c] *= scale
    if not names.even:
        pull_back_row(slopes, names.gains)
    _ask_moved(prototyped, step, feature, slopes, room.scratch, text, cosines)
    if not names.even:
        level_row(text, names.gains, names.offsets)
    for c in range(len(cosines)):
        text[c] *= scale
        prototype[c] = text[c] + _support(cosines[c], lengths[c], slope, usual, figures) - against[c, row]
    softmax_in_place(text)
    softmax_in_place(prototype)  # Eq. 4
    softmax_in_place(retrieval)  # Eq. 3


@njit(nogil=True)
def _support(
    cosine: np.float32, length: np.float32, slope: np.float32, usual: np.float32, figures: Figures
) -> np.float32:
    """What a visual prototype adds to the text's logit: see `MCPPlus._prototype_term`."""
    if length <= 0:
        return np.float32(0)
    if figures.matched:
        return slope * (length * cosine - usual)
    return figures.alpha * exp(figures.beta * (cosine - np.float32(1)))  # Eq. 4, first term: A(<f, v_c>)


@njit(nogil=True, error_model="numpy")
def _ask_moved(
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
