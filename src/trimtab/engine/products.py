"""The products of a single image: what a step costs where classes are many.

With no block to share them, every row is read once for one number, so memory is what counts: rows are read one after
the other, as a processor fetches ahead best (a library's product of a matrix with a vector reads several at once, and
its threads wait for each other: half as fast, and worse on a machine that does other things), and empty slots are
passed over. An image that several caches hold is read as often: leaving it out breaks the order and costs more.
"""

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE


@njit(fastmath=VECTORIZE, nogil=True)
def dot(first: Array, second: Array) -> np.float32:
    """Their inner product, as one vectorized loop."""
    total = np.float32(0)
    for k in range(len(first)):
        total += first[k] * second[k]
    return total


@njit(nogil=True)
def row_products(rows: Array, image: Array, out: Array) -> None:
    """(n, d), (d,) -> (n,)."""
    for row in range(len(rows)):
        out[row] = dot(rows[row], image)


@njit(nogil=True)
def slot_products(features: Array, occupied: Array, image: Array, out: Array) -> None:
    """(C, K, d), (d,) -> (C, K, 1); 0 for an empty slot."""
    classes, slots, _ = features.shape
    for c in range(classes):
        result = out[c]
        for slot in range(slots):
            if not occupied[c, slot]:
                result[slot, 0] = 0
            else:
                result[slot, 0] = dot(features[c, slot], image)
