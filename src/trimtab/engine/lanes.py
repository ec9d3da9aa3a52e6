"""Read-outs of a block: one number per class and image, from the image's inner products with the class's slots.

The loops run over the images of a block innermost, so that the compiler turns them into vector instructions; the images
are "lanes" here. A block of one image has none, and goes its own way (single.py): its products lie slot by slot. The
tests compare each with a plain NumPy twin.

Shapes: products (n, B), of which `at` (C, K) says where each slot's are; occupied (C, K); gram (C, K, K); out (C, B).
Each writes out[first_class:last_class, first_image:last_image] only: all when a block begins, one class's remaining
images when it is written, a single image's when what it writes is to be taken back.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import single
from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, exp


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def mean_products(
    products: Array,
    at: NDArray[np.int32],
    occupied: Array,
    start: int,
    stop: int,
    first_class: int,
    last_class: int,
    first_image: int,
    last_image: int,
    out: Array,
    present: NDArray[np.bool_],
) -> None:
    """<f, mean of the class's items in slots start..stop>: the mean of the products. 0 for a class without items.

    present (C,) gets whether the class has any.
    """
    if products.shape[1] == 1:
        flat = products[: at.size].reshape(at.shape)
        single.mean_products(flat, occupied, start, stop, first_class, last_class, out.reshape(-1), present)
        return
    for c in range(first_class, last_class):
        result = out[c, first_image:last_image]
        result[:] = 0
        count = np.float32(0)
        for k in range(start, stop):
            if occupied[c, k]:
                count += np.float32(1)
                row = products[at[c, k], first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += row[lane]
        present[c] = count > 0
        if count > 0:
            for lane in range(len(result)):
                result[lane] /= count  # <f, v_c>


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def affinity_sums(
    products: Array,
    at: NDArray[np.int32],
    occupied: Array,
    start: int,
    stop: int,
    alpha: np.float32,
    beta: np.float32,
    first_class: int,
    last_class: int,
    first_image: int,
    last_image: int,
    out: Array,
) -> None:
    """sum_i alpha exp(-beta (1 - <f, x_i>)) over the class's items in slots start..stop."""
    if products.shape[1] == 1:
        flat = products[: at.size].reshape(at.shape)
        single.affinity_sums(flat, occupied, start, stop, alpha, beta, first_class, last_class, out.reshape(-1))
        return
    for c in range(first_class, last_class):
        result = out[c, first_image:last_image]
        result[:] = 0
        for k in range(start, stop):
            if occupied[c, k]:
                row = products[at[c, k], first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += alpha * exp(beta * (row[lane] - np.float32(1)))


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def retrieval_cosines(
    products: Array,
    at: NDArray[np.int32],
    occupied: Array,
    gram: Array,
    stop: int,
    beta: np.float32,
    first_class: int,
    last_class: int,
    first_image: int,
    last_image: int,
    out: Array,
) -> None:
    """<f, r_c> with r_c = normalize(sum_i w_i x_i), w_i = exp(-beta (1 - <f, x_i>)), over slots 0..stop.

    From inner products alone: the numerator is sum_i w_i <f, x_i>, the squared length of the sum is w' G w with the
    class's Gram matrix G. Weights are taken relative to the largest one, which the normalization cancels, so that no
    beta makes them vanish.
    """
    if products.shape[1] == 1:
        flat = products[: at.size].reshape(at.shape)
        single.retrieval_cosines(flat, occupied, gram, stop, beta, first_class, last_class, out.reshape(-1))
        return
    lanes = last_image - first_image
    weights = np.empty((stop, lanes), np.float32)
    highest = np.empty(lanes, np.float32)
    numerator = np.empty(lanes, np.float32)
    squared = np.empty(lanes, np.float32)
    across = np.empty(lanes, np.float32)
    used = np.empty(stop, np.int64)
    for c in range(first_class, last_class):
        count = 0
        for k in range(stop):
            if occupied[c, k]:
                used[count] = k
                count += 1
        highest[:] = -np.inf
        numerator[:] = 0
        squared[:] = 0
        for i in range(count):
            row = products[at[c, used[i]], first_image:last_image]
            for lane in range(lanes):
                highest[lane] = max(highest[lane], row[lane])
        for i in range(count):
            k = used[i]
            row = products[at[c, k], first_image:last_image]
            own = weights[i]
            half = np.float32(0.5) * gram[c, k, k]
            for lane in range(lanes):
                own[lane] = exp(beta * (row[lane] - highest[lane]))
                numerator[lane] += own[lane] * row[lane]
                across[lane] = half * own[lane]
            for j in range(i):  # G is symmetric: half of it is enough
                product = gram[c, k, used[j]]
                other = weights[j]
                for lane in range(lanes):
                    across[lane] += product * other[lane]
            for lane in range(lanes):
                squared[lane] += np.float32(2) * own[lane] * across[lane]
        result = out[c, first_image:last_image]
        for lane in range(lanes):  # Eq. 3, as a cosine
            result[lane] = numerator[lane] / np.sqrt(max(squared[lane], np.float32(1e-30)))


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def add_penalties(
    products: Array,
    at: NDArray[np.int32],
    occupied: Array,
    start: int,
    alpha: np.float32,
    beta: np.float32,
    marked: NDArray[np.int32],
    counts: NDArray[np.int32],
    first_class: int,
    last_class: int,
    first_item: int,
    last_item: int,
    first_image: int,
    last_image: int,
    out: Array,
) -> None:
    """Add what negative items say against the classes they mark; a negative alpha takes it back.

    marked (C, n, M) class numbers of which counts (C, n) are in use; the items stand in slots start..start + n.
    """
    if products.shape[1] == 1:
        flat, table = products[: at.size].reshape(at.shape), out.reshape(-1)
        spans = first_class, last_class, first_item, last_item
        single.add_penalties(flat, occupied, start, alpha, beta, marked, counts, spans, table)
        return
    strengths = np.empty(last_image - first_image, np.float32)
    for c in range(first_class, last_class):
        for item in range(first_item, last_item):
            if not occupied[c, start + item]:
                continue
            row = products[at[c, start + item], first_image:last_image]
            for lane in range(len(row)):
                strengths[lane] = alpha * exp(beta * (row[lane] - np.float32(1)))
            for i in range(counts[c, item]):
                result = out[marked[c, item, i], first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += strengths[lane]
