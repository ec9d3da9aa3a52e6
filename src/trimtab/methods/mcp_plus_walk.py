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
from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import exp, softmax_in_place
from trimtab.engine.leveling import level_row, pull_back_row
from trimtab.engine.moving_text import RunningText
from trimtab.engine.prototypes import Prototypes, renew_one
from trimtab.engine.residuals import slopes_of_entropy
from trimtab.engine.tables import ReadOuts, Slots, Visit
from trimtab.fusion.strength import learn_strength, slope_of, usual_of
from trimtab.methods.mcp_plus_step import Prototyped, Step, ask_moved
from trimtab.methods.three_caches_walk import Figures, Looks, Rules, write


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
    ask_moved(prototyped, step, feature, slopes, room.scratch, text, cosines)
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
