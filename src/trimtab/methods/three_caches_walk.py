"""The three caches' rules for a whole block, compiled: `ThreeCaches.write` image after image, and the same writes.

What the caches do with an image depends on the text and on the caches, never on how the parts are weighed. So a block
is written first; each column of a read-out's table is then what its image found, and the parts follow for all images
at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door
from trimtab.engine.arrays import Array
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, softmax_into


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
    labels: NDArray[np.intp]  # (B,)
    entropies: Array  # (B,)
    vote_labels: NDArray[np.intp]  # (B,)
    vote_entropies: Array  # (B,)
    clear: NDArray[np.bool_]  # (B,): whether the text is as clear as it used to be


def looks_of(block: Block, clear: NDArray[np.bool_]) -> Looks:
    """The block as the loop takes it."""
    return Looks(
        np.ascontiguousarray(block.views[:, 0]),
        block.logits,
        block.labels,
        block.entropies,
        block.vote_labels,
        block.vote_entropies,
        clear,
    )


@njit(nogil=True)
def walk(bank: door.Slots, readouts: door.ReadOuts, looks: Looks, rules: Rules) -> None:
    """Offer each image of the block to the entropy cache, the align cache and, if uncertain, the negative cache."""
    classes = looks.logits.shape[1]
    probabilities = np.empty(classes, np.float32)
    bits = np.log2(classes)
    for row in range(len(looks.plain)):
        label, entropy = looks.labels[row], looks.entropies[row]
        bank.arrivals[label] += looks.clear[row]
        bank.closed[0] = bank.lifetime > 0 and not looks.clear[row]
        # The align test uses the visual prototype as it was before this image, so it comes before any write.
        align_slot = _align_slot(bank, looks, rules, row)
        door.offer(bank, readouts, rules.entropy_start, rules.align_start, label, row, entropy, probabilities)
        if align_slot != door.NOWHERE:
            door.write(
                bank,
                readouts,
                looks.vote_labels[row],
                align_slot,
                row,
                looks.vote_entropies[row],
                looks.plain[row],
                rules.stores_queries,
                probabilities,
            )
        if rules.entropy_low < entropy / bits < rules.entropy_high:
            _reflect(bank, readouts, looks, rules, row, bits, probabilities)


@njit(fastmath=VECTORIZE, nogil=True)
def _align_slot(bank: door.Slots, looks: Looks, rules: Rules, row: int) -> int:
    """Where the align cache would take the image: see `ThreeCaches._align_slot`."""
    label, plain = looks.vote_labels[row], looks.plain[row]
    occupied = bank.occupied[label]
    slot = door.slot_for_lower(bank, label, rules.align_start, rules.negative_start, looks.vote_entropies[row])
    if slot == door.NOWHERE or not occupied[slot]:
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
    nearer = door.dot(plain, plain) - 2 * arriving_center < leaving[slot] - 2 * leaving_center
    return slot if nearer else door.NOWHERE


@njit(nogil=True)
def _product(bank: door.Slots, rules: Rules, label: int, slot: int, row: int, plain: Array) -> np.float32:
    """Of the image's plain view with an item; known already where that view stands for the image."""
    return bank.products[label, slot, row] if rules.stores_queries else door.dot(bank.features[label, slot], plain)


@njit(nogil=True, inline="always")
def _reflect(
    bank: door.Slots,
    readouts: door.ReadOuts,
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
    calibrated = softmax_into(probabilities, probabilities)
    label = int(probabilities.argmax())
    if rules.entropy_low < calibrated / bits < rules.entropy_high:  # case 1: still uncertain, a negative item
        door.offer(bank, readouts, rules.negative_start, rules.stop, label, row, calibrated, probabilities)
    elif calibrated / bits <= rules.entropy_low and rules.promotion:  # case 2: certain now, promoted
        door.offer(bank, readouts, rules.entropy_start, rules.align_start, label, row, calibrated, probabilities)


def prototype_and_retrieval(
    logits: Array, term: Array, scales: Array, against: Array, retrieved: Array
) -> tuple[Array, Array]:
    """(B, C) each: what prototypes and retrieval say of images, the former with its `term` (B, C).

    `against` and `retrieved` are the read-outs' tables (C, B). One image goes the same way as a block, so that its
    answer is the same, bit for bit.
    """
    prototype, retrieval = np.empty_like(logits), np.empty_like(logits)
    _parts(logits, term, scales, against, retrieved, prototype, retrieval)
    return prototype, retrieval


@njit(nogil=True)
def _parts(
    logits: Array, term: Array, scales: Array, against: Array, retrieved: Array, prototype: Array, retrieval: Array
) -> None:
    for row in range(len(logits)):
        for c in range(logits.shape[1]):
            prototype[row, c] = logits[row, c] + term[row, c] - against[c, row]
            retrieval[row, c] = scales[row] * retrieved[c, row]
        softmax_into(prototype[row], prototype[row])  # Eq. 4
        softmax_into(retrieval[row], retrieval[row])  # Eq. 3
