"""TDA and BoostAdapter for a whole block, compiled: `observe` image after image, and what its own views lend it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door
from trimtab.engine.arrays import Array
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import exp
from trimtab.engine.tables import Affinities, ReadOuts, Slots, Visit


class Rules(NamedTuple):
    """Where the negative cache begins and ends, behind the positive one, and what it asks."""

    negative: int
    stop: int
    entropy_low: float
    entropy_high: float
    keeps_newest: bool  # of negative items: the newest, or those of lowest entropy


class Judged(NamedTuple):
    """What the caches judge each image of a block by."""

    labels: NDArray[np.intp]  # (B,)
    entropies: Array  # (B,)
    probabilities: Array  # (B, C)


class Lent(NamedTuple):
    """The views that each image lends the positive cache for the time of its prediction; n may be 0."""

    labels: NDArray[np.intp]  # (B, n)
    entropies: Array  # (B, n)
    likeness: Array  # (B, n): to what stands for the image
    room: int  # items per class that speak then


def nothing_lent(block: Block) -> Lent:
    """No views."""
    none: Array = np.empty((len(block), 0), np.float32)
    return Lent(np.empty((len(block), 0), np.intp), none, none, 0)


@njit(nogil=True)
def walk(bank: Slots, readouts: ReadOuts, visit: Visit, judged: Judged, rules: Rules, lent: Lent) -> None:
    """Offer each image of a block to the positive cache and, if it is uncertain, to the negative cache."""
    bits = np.log2(judged.probabilities.shape[1])
    for row in range(len(judged.labels)):
        label, score, payload = judged.labels[row], judged.entropies[row], judged.probabilities[row]
        door.offer(bank, readouts, visit, 0, rules.negative, label, row, score, payload)
        if rules.entropy_low < score / bits < rules.entropy_high:
            if rules.keeps_newest:
                _put_newest(bank, readouts, visit, rules, label, row, score, payload)
            else:
                door.offer(bank, readouts, visit, rules.negative, rules.stop, label, row, score, payload)
        for view in range(lent.labels.shape[1]):
            _lend(bank, readouts.affinities, lent, row, lent.labels[row, view])
        if not visit.learned[row]:
            door.take_back(bank, readouts, visit, row)


@njit(nogil=True)
def _put_newest(
    bank: Slots, readouts: ReadOuts, visit: Visit, rules: Rules, label: int, row: int, score: np.float32, payload: Array
) -> None:
    """Store image `row` in a free slot of the negative cache, or in the place of its oldest item."""
    if rules.negative == rules.stop:
        return
    oldest = rules.negative
    for slot in range(rules.negative, rules.stop):
        if not bank.occupied[label, slot]:
            oldest = slot
            break
        if bank.sources[label, slot] < bank.sources[label, oldest]:
            oldest = slot
    query = bank.queries[row]
    door.write(bank, readouts, visit, label, oldest, row, score, query, is_query=True, payload=payload)


@njit(nogil=True)
def _lend(bank: Slots, affinities: Affinities, lent: Lent, row: int, label: int) -> None:
    """What a class's items and the views lent to it say of image `row`: of all of them those of lowest entropy."""
    start, stop = affinities.start, affinities.stop
    views = lent.labels.shape[1]
    scores, products = np.empty(stop - start + views, np.float32), np.empty(stop - start + views, np.float32)
    count = 0
    for slot in range(start, stop):
        if bank.occupied[label, slot]:
            scores[count], products[count] = bank.scores[label, slot], bank.products[bank.at[label, slot], row]
            count += 1
    for view in range(views):
        if lent.labels[row, view] == label:
            scores[count], products[count] = lent.entropies[row, view], lent.likeness[row, view]
            count += 1
    total = np.float32(0)
    for _ in range(min(lent.room, count)):
        lowest = 0
        for item in range(1, count):
            if scores[item] < scores[lowest]:  # of equals, the first
                lowest = item
        total += exp(affinities.beta * (products[lowest] - np.float32(1)))
        scores[lowest] = np.inf
    affinities.table[label, row] = affinities.alpha * total
