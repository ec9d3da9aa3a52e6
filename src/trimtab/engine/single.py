"""Read-outs of a block of one image, from its products with the slots of each class.

With no images to run over, loops have to run over the slots, and a class has few: so exponentials are taken of the
slots of many classes in one loop, and sums have loops that read whole rows. `lanes` has the same for blocks.

Shapes: products, occupied (C, K); gram (C, K, K); out (C,). Only the classes first..last are written.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, exp, highest_of
from trimtab.engine.products import dot

AT_ONCE = 32  # classes whose exponentials are taken in one loop; their slots fit the processor's first cache
EMPTY = np.float32(-2)  # instead of the product of an empty slot, which is 0: below every cosine


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def mean_products(
    products: Array,
    occupied: Array,
    start: int,
    stop: int,
    first: int,
    last: int,
    out: Array,
    present: NDArray[np.bool_],
) -> None:
    """<f, v_c>: see `lanes.mean_products`."""
    for c in range(first, last):
        own, held = products[c, start:stop], occupied[c, start:stop]
        total, count = np.float32(0), np.float32(0)
        for k in range(len(own)):
            total += held[k] * own[k]
            count += held[k]
        present[c] = count > 0
        out[c] = total / max(count, np.float32(1))


@njit(nogil=True)
def affinity_sums(
    products: Array,
    occupied: Array,
    start: int,
    stop: int,
    alpha: np.float32,
    beta: np.float32,
    first: int,
    last: int,
    out: Array,
) -> None:
    """sum_i alpha exp(-beta (1 - <f, x_i>)): see `lanes.affinity_sums`."""
    slots = products.shape[1]
    room = np.empty(min(AT_ONCE, last - first) * slots, np.float32)
    for begin in range(first, last, AT_ONCE):
        end = min(begin + AT_ONCE, last)
        strengths = room[: (end - begin) * slots]
        _copy(products[begin:end].reshape(-1), strengths)
        _exponentials(strengths, np.float32(1), beta)
        for c in range(begin, end):
            own = strengths[(c - begin) * slots : (c - begin + 1) * slots]
            out[c] = alpha * dot(own[start:stop], occupied[c, start:stop])


@njit(nogil=True)
def retrieval_cosines(
    products: Array,
    occupied: Array,
    gram: Array,
    stop: int,
    beta: np.float32,
    first: int,
    last: int,
    out: Array,
) -> None:
    """<f, r_c>: see `lanes.retrieval_cosines`."""
    slots = products.shape[1]
    room = np.empty(min(AT_ONCE, last - first) * slots, np.float32)
    for begin in range(first, last, AT_ONCE):
        end = min(begin + AT_ONCE, last)
        for c in range(begin, end):
            row = room[(c - begin) * slots : (c - begin + 1) * slots]
            _masked(products[c], occupied[c], row)
            _below(highest_of(row[:stop]), row)
        _exponentials(room[: (end - begin) * slots], np.float32(0), beta)
        for c in range(begin, end):
            weights = room[(c - begin) * slots : (c - begin + 1) * slots]
            _take_off_empty(weights, occupied[c], stop)
            squared = _square(gram[c], weights, stop)
            out[c] = dot(weights, products[c]) / np.sqrt(max(squared, np.float32(1e-30)))  # Eq. 3, as a cosine


@njit(nogil=True)
def add_penalties(
    products: Array,
    occupied: Array,
    start: int,
    alpha: np.float32,
    beta: np.float32,
    marked: NDArray[np.int32],
    counts: NDArray[np.int32],
    spans: tuple[int, int, int, int],
    out: Array,
) -> None:
    """What negative items say against the classes they mark: see `lanes.add_penalties`. `spans`: classes, items."""
    first, last, first_item, last_item = spans
    for c in range(first, last):
        for item in range(first_item, last_item):
            if not occupied[c, start + item]:
                continue
            strength = alpha * exp(beta * (products[c, start + item] - np.float32(1)))
            against = marked[c, item]
            for i in range(counts[c, item]):
                out[against[i]] += strength


@njit(fastmath=VECTORIZE, nogil=True)
def _exponentials(values: Array, shift: np.float32, beta: np.float32) -> None:
    """exp(beta (x - shift)) of each, in place."""
    for k in range(len(values)):
        values[k] = exp(beta * (values[k] - shift))


@njit(nogil=True)
def _copy(values: Array, out: Array) -> None:
    for k in range(len(values)):
        out[k] = values[k]


@njit(nogil=True)
def _masked(own: Array, held: Array, out: Array) -> None:
    for k in range(len(own)):
        out[k] = own[k] + (np.float32(1) - held[k]) * EMPTY


@njit(nogil=True)
def _below(highest: np.float32, row: Array) -> None:
    for k in range(len(row)):
        row[k] = min(row[k] - highest, np.float32(0))


@njit(nogil=True)
def _take_off_empty(weights: Array, held: Array, stop: int) -> None:
    for k in range(len(weights)):
        weights[k] *= held[k]
    for k in range(stop, len(weights)):
        weights[k] = np.float32(0)


@njit(nogil=True)
def _square(gram: Array, weights: Array, stop: int) -> np.float32:
    """The squared length of the weighted sum, w' G w; weights from `stop` on are 0."""
    total = np.float32(0)
    for k in range(stop):
        total += weights[k] * dot(gram[k], weights)
    return total
