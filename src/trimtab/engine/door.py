"""The compiled door of a bank: finding a slot and writing an image into it, for loops that walk a whole block.

`Bank.write` is the same in Python, image by image, for methods whose rules are not compiled and for whoever wants to
know of every write. Both put an item with `put_item` and keep the same tables true with the same kernels, so it makes
no difference which one is taken; a test holds them to each other.

A bank and its read-outs are plain tuples of arrays here. `Bank.compiled` and the read-outs' `compiled` give them for
the open block; a read-out that a method does not have is one without slots (`NO_MEANS` and its like).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import kernels
from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE

NOWHERE = -1  # instead of a slot


class Slots(NamedTuple):
    """What a bank holds, and the products of the open block; see `Bank`."""

    features: Array  # (C, K, d)
    scores: Array  # (C, K)
    sources: NDArray[np.int64]  # (C, K)
    occupied: Array  # (C, K)
    gram: Array  # (C, K, K)
    products: Array  # (C, K, B)
    queries: Array  # (B, d)
    among: Array  # (B, B): the products of the block's images with each other
    first: int  # position of the block's first image in the stream
    births: NDArray[np.int64]  # (C, K): the class's arrivals when the item came
    arrivals: NDArray[np.int64]  # (C,): the class's clock, in images of it
    lifetime: int  # arrivals per slot of a section after which its items give way; 0: never
    closed: NDArray[np.bool_]  # (1,): whether full sections take nothing, for the image at hand


class Means(NamedTuple):
    """`readouts.MeanProducts`."""

    start: int
    stop: int
    table: Array  # (C, B)
    present: NDArray[np.bool_]  # (C,): whether the class holds an item
    since: NDArray[np.int64]  # (C,): the block's first image that finds an item of the class; B: none does


class Affinities(NamedTuple):
    """`readouts.AffinitySums`."""

    start: int
    stop: int
    alpha: np.float32
    beta: np.float32
    table: Array  # (C, B)


class Retrieved(NamedTuple):
    """`readouts.RetrievalCosines`."""

    stop: int
    beta: np.float32
    table: Array  # (C, B)


class Penalties(NamedTuple):
    """`readouts.NegativePenalties`."""

    start: int
    stop: int
    alpha: np.float32
    beta: np.float32
    low: np.float32
    high: np.float32
    marked: NDArray[np.int32]  # (C, n, M)
    counts: NDArray[np.int32]  # (C, n)
    table: Array  # (C, B)


class ReadOuts(NamedTuple):
    """Everything that follows a bank."""

    means: Means
    affinities: Affinities
    retrieved: Retrieved
    penalties: Penalties


_NO_TABLE: Array = np.zeros((0, 0), np.float32)
NO_MEANS = Means(0, 0, _NO_TABLE, np.zeros(0, np.bool_), np.zeros(0, np.int64))
NO_RETRIEVED = Retrieved(0, np.float32(0), _NO_TABLE)
NO_AFFINITIES = Affinities(0, 0, np.float32(0), np.float32(0), _NO_TABLE)
NO_PENALTIES = Penalties(
    0,
    0,
    np.float32(0),
    np.float32(0),
    np.float32(0),
    np.float32(0),
    np.zeros((0, 0, 0), np.int32),
    np.zeros((0, 0), np.int32),
    _NO_TABLE,
)


@njit(nogil=True)
def slot_for_lower(bank: Slots, label: int, start: int, stop: int, score: np.float32) -> int:
    """The slot where a class's section, slots start..stop, takes an item of this score, or NOWHERE.

    Its next free slot; if the bank is not closed, that of an item which has outlived its time, else the worst one if
    the score is strictly lower; of equals, the first.
    """
    if start == stop:
        return NOWHERE
    occupied, scores, births = bank.occupied[label], bank.scores[label], bank.births[label]
    worst = oldest = start
    for slot in range(start, stop):
        if not occupied[slot]:
            return slot
        if scores[slot] > scores[worst]:
            worst = slot
        if births[slot] < births[oldest]:
            oldest = slot
    if bank.closed[0]:
        return NOWHERE
    if bank.lifetime > 0 and bank.arrivals[label] - births[oldest] > bank.lifetime * (stop - start):
        return oldest
    return worst if score < scores[worst] else NOWHERE


@njit(fastmath=VECTORIZE, nogil=True)
def dot(first: Array, second: Array) -> np.float32:
    """Their inner product, as one vectorized loop."""
    total = np.float32(0)
    for k in range(len(first)):
        total += first[k] * second[k]
    return total


@njit(fastmath=VECTORIZE, nogil=True)
def put_item(bank: Slots, label: int, slot: int, row: int, score: np.float32, feature: Array, is_query: bool) -> None:
    """Put an item into a slot: the block's image `row` itself (`is_query`), or another feature of it."""
    features, products = bank.features[label], bank.products[label]
    target = products[slot]
    stored = features[slot]
    for k in range(len(stored)):
        stored[k] = feature[k]
    if is_query:
        known = bank.among[row]
        for lane in range(row, len(target)):
            target[lane] = known[lane]
    else:
        for lane in range(row, len(target)):
            target[lane] = dot(bank.queries[lane], feature)
    gram = bank.gram[label]
    for other in range(len(features)):
        product = products[other, row] if is_query else dot(features[other], feature)
        gram[slot, other] = product
        gram[other, slot] = product
    bank.scores[label, slot] = score
    bank.sources[label, slot] = bank.first + row
    bank.births[label, slot] = bank.arrivals[label]
    bank.occupied[label, slot] = np.float32(1)


@njit(nogil=True)
def write(
    bank: Slots,
    readouts: ReadOuts,
    label: int,
    slot: int,
    row: int,
    score: np.float32,
    feature: Array,
    is_query: bool,
    payload: Array,
) -> None:
    """Put an item into a slot, over whatever it held, and keep the read-outs true for the images from `row` on."""
    penalties = readouts.penalties
    if penalties.start <= slot < penalties.stop:
        _speak(bank, penalties, label, slot, row, -penalties.alpha)
    put_item(bank, label, slot, row, score, feature, is_query)
    means, affinities, retrieved = readouts.means, readouts.affinities, readouts.retrieved
    if means.start <= slot < means.stop:
        means.since[label] = min(means.since[label], row)
        kernels.mean_products(
            bank.products,
            bank.occupied,
            means.start,
            means.stop,
            label,
            label + 1,
            row,
            means.table,
            means.present,
        )
    if affinities.start <= slot < affinities.stop:
        kernels.affinity_sums(
            bank.products,
            bank.occupied,
            affinities.start,
            affinities.stop,
            affinities.alpha,
            affinities.beta,
            label,
            label + 1,
            row,
            affinities.table,
        )
    if slot < retrieved.stop:
        kernels.retrieval_cosines(
            bank.products,
            bank.occupied,
            bank.gram,
            retrieved.stop,
            retrieved.beta,
            label,
            label + 1,
            row,
            retrieved.table,
        )
    if penalties.start <= slot < penalties.stop:
        _mark(penalties, label, slot - penalties.start, payload)
        _speak(bank, penalties, label, slot, row, penalties.alpha)


@njit(nogil=True, inline="always")
def offer(
    bank: Slots, readouts: ReadOuts, start: int, stop: int, label: int, row: int, score: np.float32, payload: Array
) -> None:
    """Store image `row` in a section if there is room or its score is strictly lower than the worst one."""
    slot = slot_for_lower(bank, label, start, stop, score)
    if slot != NOWHERE:
        itself = bool(row >= 0)  # the bare word True would be another type, and `write` compiled twice
        write(bank, readouts, label, slot, row, score, bank.queries[row], itself, payload)


@njit(nogil=True)
def _mark(penalties: Penalties, label: int, item: int, payload: Array) -> None:
    """Remember the classes that a negative item finds plausible: its row of L_n."""
    count = 0
    for c in range(len(payload)):
        if penalties.low < payload[c] < penalties.high:
            penalties.marked[label, item, count] = c
            count += 1
    penalties.counts[label, item] = count


@njit(nogil=True)
def _speak(bank: Slots, penalties: Penalties, label: int, slot: int, row: int, alpha: np.float32) -> None:
    """Let a negative item speak against the classes it marks; a negative alpha takes it back."""
    item = slot - penalties.start
    kernels.add_penalties(
        bank.products,
        bank.occupied,
        penalties.start,
        alpha,
        penalties.beta,
        penalties.marked,
        penalties.counts,
        label,
        label + 1,
        item,
        item + 1,
        row,
        penalties.table,
    )
