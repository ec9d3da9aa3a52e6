"""MCP for a whole block, compiled: `MCP.step` image after image, the same writes and the same parts.

Each image is offered to the caches; what it then finds in its column of the read-outs' tables gives its parts. An image
that is not to be learned from finds the same, and then everything that it changed is put back.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door
from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.block import Block
from trimtab.engine.clarity import is_clear
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of, exp, softmax_in_place
from trimtab.engine.pool import NOWHERE
from trimtab.engine.products import dot
from trimtab.engine.tables import ReadOuts, Slots, Visit
from trimtab.fusion.strength import learn_strength, slope_of, usual_of


class Rules(NamedTuple):
    """Where the caches begin and end, and what they ask."""

    entropy_start: int
    align_start: int
    negative_start: int
    stop: int
    entropy_low: float  # tau_l
    entropy_high: float  # tau_h
    center_weight: float  # w
    promotion: bool
    stores_queries: bool  # whether the align cache's plain views are what stands for an image


class Looks(NamedTuple):
    """A block as the text sees it."""

    plain: Array  # (B, d)
    logits: Array  # (B, C)
    scales: Array  # (B,)
    probabilities: Array  # (B, C)
    labels: NDArray[np.intp]  # (B,)
    entropies: Array  # (B,)
    vote_labels: NDArray[np.intp]  # (B,)
    vote_entropies: Array  # (B,)


def looks_of(block: Block) -> Looks:
    """The block as the loop takes it."""
    return Looks(
        block.plain,
        block.logits,
        block.logit_scales,
        block.probabilities,
        block.labels,
        block.entropies,
        block.vote_labels,
        block.vote_entropies,
    )


class Figures(NamedTuple):
    """The running figures that an image changes, and how the prototypes speak."""

    clarity: Doubles
    strength: Doubles
    matched: bool  # the prototype term: linear with a strength that is found, or the paper's A(x)
    alpha: np.float32  # of A(x)
    beta: np.float32


@njit(nogil=True)
def walk(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    looks: Looks,
    rules: Rules,
    figures: Figures,
    prototype: Array,
    retrieval: Array,
) -> None:
    """Take in each image of the block and write its parts, (B, C) both."""
    classes = looks.logits.shape[1]
    scratch = np.empty(classes, np.float32)
    clarity, strength = figures.clarity.copy(), figures.strength.copy()
    for row in range(len(looks.plain)):
        label = looks.labels[row]
        before = bank.arrivals[label]
        if not visit.learned[row]:
            clarity[:], strength[:] = figures.clarity, figures.strength
        write(bank, readouts, visit, looks, rules, figures, row, scratch)
        _parts(readouts, looks, figures, row, scratch, prototype[row], retrieval[row])
        if not visit.learned[row]:
            door.take_back(bank, readouts, visit, row)
            bank.arrivals[label] = before
            figures.clarity[:], figures.strength[:] = clarity, strength


@njit(nogil=True)
def write(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    looks: Looks,
    rules: Rules,
    figures: Figures,
    row: int,
    probabilities: Array,
) -> None:
    """Offer an image to the entropy cache, the align cache and, if uncertain, the negative cache."""
    bits = np.log2(looks.logits.shape[1])
    label, entropy = looks.labels[row], looks.entropies[row]
    clear = is_clear(looks.logits[row], figures.clarity)
    bank.arrivals[label] += clear
    bank.closed[0] = bank.lifetime > 0 and not clear
    # The align test uses the visual prototype as it was before this image, so it comes before any write.
    align_slot = _align_slot(bank, looks, rules, row)
    door.offer(bank, readouts, visit, rules.entropy_start, rules.align_start, label, row, entropy, probabilities)
    if align_slot != NOWHERE:
        door.write(
            bank,
            readouts,
            visit,
            looks.vote_labels[row],
            align_slot,
            row,
            looks.vote_entropies[row],
            looks.plain[row],
            rules.stores_queries,
            probabilities,
        )
    if rules.entropy_low < entropy / bits < rules.entropy_high:
        _reflect(bank, readouts, visit, looks, rules, row, bits, probabilities)


@njit(fastmath=VECTORIZE, nogil=True)
def _align_slot(bank: Slots, looks: Looks, rules: Rules, row: int) -> int:
    """Where the align cache would take the image: see `ThreeCaches._align_slot`."""
    label, plain = looks.vote_labels[row], looks.plain[row]
    occupied = bank.occupied[label]
    slot = door.slot_for_lower(bank, label, rules.align_start, rules.negative_start, looks.vote_entropies[row])
    if slot == NOWHERE or not occupied[slot]:
        return slot
    leaving = bank.gram[label, slot]
    arriving_sum, leaving_sum, count = np.float64(0), np.float64(0), 0
    for k in range(1, rules.negative_start):
        if occupied[k]:
            arriving_sum += _product(bank, rules, label, k, row, plain)
            leaving_sum += leaving[k]
            count += 1
    w = rules.center_weight
    arriving_center = w * arriving_sum / count + (1 - w) * _product(bank, rules, label, 0, row, plain)  # Eq. 2
    leaving_center = w * leaving_sum / count + (1 - w) * leaving[0]
    # Squared distances to the center, less |mu|^2, which both share.
    nearer = dot(plain, plain) - 2 * arriving_center < leaving[slot] - 2 * leaving_center
    return slot if nearer else NOWHERE


@njit(nogil=True)
def _product(bank: Slots, rules: Rules, label: int, slot: int, row: int, plain: Array) -> np.float32:
    """Of the image's plain view with an item; known already where that view stands for the image."""
    if rules.stores_queries:
        return bank.products[bank.at[label, slot], row]
    return dot(bank.rows.features[bank.rows.places[label, slot]], plain)


@njit(nogil=True, inline="always")
def _reflect(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    looks: Looks,
    rules: Rules,
    row: int,
    bits: float,
    probabilities: Array,
) -> None:
    """The reflecting mechanism, three cases: see `ThreeCaches._reflect`."""
    reflected = readouts.affinities.table
    for c in range(len(probabilities)):
        probabilities[c] = looks.logits[row, c] + reflected[c, row]
    calibrated = softmax_in_place(probabilities)
    label = best_of(probabilities)
    if rules.entropy_low < calibrated / bits < rules.entropy_high:  # case 1: still uncertain, a negative item
        door.offer(bank, readouts, visit, rules.negative_start, rules.stop, label, row, calibrated, probabilities)
    elif calibrated / bits <= rules.entropy_low and rules.promotion:  # case 2: certain now, promoted
        door.offer(bank, readouts, visit, rules.entropy_start, rules.align_start, label, row, calibrated, probabilities)


@njit(nogil=True)
def _parts(
    readouts: ReadOuts, looks: Looks, figures: Figures, row: int, cosines: Array, prototype: Array, retrieval: Array
) -> None:
    """What the prototypes and the retrieved items say of an image that has been written, (C,) each."""
    visual, present, against = readouts.means.table, readouts.means.present, readouts.penalties.table
    retrieved, logits, scale = readouts.retrieved.table, looks.logits[row], looks.scales[row]
    for c in range(len(cosines)):
        cosines[c] = visual[c, row]
        prototype[c] = logits[c] - against[c, row]
        retrieval[c] = scale * retrieved[c, row]
    if figures.matched:
        learn_strength(figures.strength, looks.probabilities[row], logits, cosines, present)
        slope, usual = np.float32(slope_of(figures.strength, len(cosines))), np.float32(usual_of(figures.strength))
        for c in range(len(cosines)):
            prototype[c] += slope * (cosines[c] - usual) if present[c] else np.float32(0)
    else:
        for c in range(len(cosines)):  # Eq. 4, first term: A(<f, v_c>)
            term = figures.alpha * exp(figures.beta * (cosines[c] - np.float32(1)))
            prototype[c] += term if present[c] else np.float32(0)
    softmax_in_place(prototype)  # Eq. 4
    softmax_in_place(retrieval)  # Eq. 3


def prototype_and_retrieval(logits: Array, term: Array, scales: Array, retrieved: Array) -> tuple[Array, Array]:
    """(B, C) each: the same for images that have been written before.

    `term` is what prototypes and negative items add to the text's logits, `retrieved` the retrieval's cosines, (B, C)
    both; they are written over. One image goes the same way as a block, so that its answer is the same, bit for bit.
    """
    term += logits
    retrieved *= scales[:, None]
    _softmax_of_both(term, retrieved)
    return term, retrieved


@njit(nogil=True)
def _softmax_of_both(prototype: Array, retrieval: Array) -> None:
    for row in range(len(prototype)):
        softmax_in_place(prototype[row])  # Eq. 4
        softmax_in_place(retrieval[row])  # Eq. 3
