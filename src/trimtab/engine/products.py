"""The products of a single image: what a step costs where classes are many.

With no block to share them, every row is read once for one number, so memory is what counts: rows are read one after
the other, as a processor fetches ahead best (a library's product of a matrix with a vector reads several at once, and
its threads wait for each other: half as fast, and worse on a machine that does other things); empty slots are passed
over; and an image that several of a class's caches hold is multiplied once.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE

NO_TWIN = -1


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
def slot_products(features: Array, occupied: Array, twins: NDArray[np.int32], image: Array, out: Array) -> None:
    """(C, K, d), (d,) -> (C, K, 1); a slot that is another's twin has the other's product."""
    classes, slots, _ = features.shape
    for c in range(classes):
        result = out[c]
        for slot in range(slots):
            if not occupied[c, slot]:
                result[slot, 0] = 0
            elif twins[c, slot] != NO_TWIN:
                result[slot, 0] = result[twins[c, slot], 0]
            else:
                result[slot, 0] = dot(features[c, slot], image)


@njit(nogil=True)
def find_twins(sources: NDArray[np.int64], known: NDArray[np.int64], twins: NDArray[np.int32]) -> None:
    """Make `twins` (C, K) true: the earlier slot of the class that holds the same image, or NO_TWIN.

    `known` are the sources that it was last found for, so that only classes which have changed since, in whatever way,
    are looked at again.
    """
    classes, slots = sources.shape
    for c in range(classes):
        changed = np.int64(0)
        for slot in range(slots):
            changed |= sources[c, slot] ^ known[c, slot]
        if changed == 0:
            continue
        for slot in range(slots):
            known[c, slot], twins[c, slot] = sources[c, slot], NO_TWIN
            for other in range(slot):
                if sources[c, other] >= 0 and sources[c, other] == sources[c, slot]:
                    twins[c, slot] = other
                    break
