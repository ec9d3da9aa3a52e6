"""The few loops that NumPy cannot express fast. The tests compare each with a plain NumPy twin.

A read-out is one number per class and image, from the image's inner products with the class's slots. The loops run over
the images of a block innermost, so that the compiler turns them into vector instructions; the images are "lanes" here.
Sums may be reordered (`reassoc`, `contract`); nothing else is relaxed.

Shapes: products (C, K, B); occupied (C, K); gram (C, K, K); out (C, B). Each kernel writes out[first_class:last_class,
first_image:last_image] only: all when a block begins, one class's remaining images when it is written, a single
image's when what it writes is to be taken back.
Rows are sliced before they are walked, and divisions are NumPy's: an index below 0 or a check for 0 keeps loops scalar.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit

VECTORIZE = {"reassoc", "contract", "nsz"}  # sums may be reordered; nothing else is relaxed
STRETCH = 256  # numbers that are searched at once


@njit(fastmath=VECTORIZE, inline="always")
def exp(x: np.float32) -> np.float32:
    """The exponential for x <= 88 to 3e-7, with no branch and no call, so that a loop becomes vector instructions.

    x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts: r is then exact); exp(r) by a polynomial; 2^n by its bits.
    """
    x = max(x, np.float32(-87.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
    p = np.float32(1.98756915e-4)
    p = p * r + np.float32(1.39819995e-3)
    p = p * r + np.float32(8.33345190e-3)
    p = p * r + np.float32(4.16657959e-2)
    p = p * r + np.float32(1.66666655e-1)
    p = p * r + np.float32(5.00000012e-1)
    p = p * r * r + r + np.float32(1.0)
    power = (np.int32(n) + np.int32(127)) << np.int32(23)
    return p * np.int32(power).view(np.float32)


@njit(fastmath=VECTORIZE, inline="always")
def log(x: np.float32) -> np.float32:
    """The natural logarithm of x > 1e-37 to 3e-7, in the same way: x = 2^n (1 + f) with 1 + f near 1, by its bits."""
    bits = np.float32(x).view(np.int32)
    n = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    f = np.int32(bits - (n << np.int32(23))).view(np.float32) - np.float32(1)
    p = np.float32(7.0376836292e-2)
    p = p * f - np.float32(1.1514610310e-1)
    p = p * f + np.float32(1.1676998740e-1)
    p = p * f - np.float32(1.2420140846e-1)
    p = p * f + np.float32(1.4249322787e-1)
    p = p * f - np.float32(1.6668057665e-1)
    p = p * f + np.float32(2.0000714765e-1)
    p = p * f - np.float32(2.4999993993e-1)
    p = p * f + np.float32(3.3333331174e-1)
    power = np.float32(n)
    p = p * f * f * f - power * np.float32(2.12194440e-4) - np.float32(0.5) * f * f
    return f + p + power * np.float32(0.693359375)


@njit(nogil=True)
def highest_of(values: Array) -> np.float32:
    """The highest of (C,) numbers; eight searches side by side are three times as fast as one."""
    a = b = c = d = e = f = g = h = values[0]
    whole = len(values) // 8 * 8
    for k in range(0, whole, 8):
        a, b, c, d = max(a, values[k]), max(b, values[k + 1]), max(c, values[k + 2]), max(d, values[k + 3])
        e, f, g, h = max(e, values[k + 4]), max(f, values[k + 5]), max(g, values[k + 6]), max(h, values[k + 7])
    highest = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))
    for k in range(whole, len(values)):
        highest = max(highest, values[k])
    return highest


@njit(nogil=True)
def best_of(values: Array) -> int:
    """Where the highest of (C,) numbers stands; of equals, the first. A stretch is found before the place."""
    highest, first = highest_of(values[:STRETCH]), 0
    for start in range(STRETCH, len(values), STRETCH):
        here = highest_of(values[start : start + STRETCH])
        if here > highest:
            highest, first = here, start
    for c in range(first, len(values)):
        if values[c] == highest:
            return c
    return 0


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def row_entropies(logits: Array, out: Array) -> None:
    """Entropy of each row's softmax: log of the sum of exponentials less the mean logit. (R, C) -> (R,).

    The likeliest class is left out of the sums: beside its 1, what the others add to a very sure row would be rounded
    away, and the order of sure views with it.
    """
    rows, classes = logits.shape
    for row in range(rows):
        best = best_of(logits[row])
        highest = logits[row, best]
        others = np.float32(0)
        weighted = np.float32(0)
        for c in range(classes):
            shifted = logits[row, c] - highest
            exponential = exp(shifted) if c != best else np.float32(0)
            others += exponential
            weighted += exponential * shifted
        out[row] = np.log1p(others) - weighted / (np.float32(1) + others)


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def softmax_in_place(row: Array) -> np.float32:
    """Softmax of one row (C,), written over it; its entropy, as in `row_entropies`.

    Where a loop reads one array, writes another and sums, whether it runs in lanes, and so the sums' last bits, may
    depend on how far apart the two lie. So: one array, or sums in a loop that writes nothing.
    """
    best = best_of(row)
    highest = row[best]
    others = np.float32(0)
    weighted = np.float32(0)
    for c in range(len(row)):
        shifted = row[c] - highest
        exponential = exp(shifted) if c != best else np.float32(0)
        row[c] = exponential
        others += exponential
        weighted += exponential * shifted
    row[best] = np.float32(1)
    total = np.float32(1) + others
    share = np.float32(1) / total
    for c in range(len(row)):
        row[c] *= share
    return np.log1p(others) - weighted / total


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def mean_products(
    products: Array,
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
    alone = last_image - first_image == 1  # no lanes to run over: the slots are innermost
    for c in range(first_class, last_class):
        if alone:
            total, held = np.float32(0), np.float32(0)
            for k in range(start, stop):
                total += occupied[c, k] * products[c, k, first_image]
                held += occupied[c, k]
            present[c] = held > 0
            out[c, first_image] = total / max(held, np.float32(1))
            continue
        result = out[c, first_image:last_image]
        result[:] = 0
        count = np.float32(0)
        for k in range(start, stop):
            if occupied[c, k]:
                count += np.float32(1)
                row = products[c, k, first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += row[lane]
        present[c] = count > 0
        if count > 0:
            for lane in range(len(result)):
                result[lane] /= count  # <f, v_c>


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def affinity_sums(
    products: Array,
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
    alone = last_image - first_image == 1  # no lanes to run over: the slots are innermost
    own = np.empty(stop - start, np.float32)  # side by side, as vector instructions want them
    for c in range(first_class, last_class):
        if alone:
            held = occupied[c, start:stop]
            for k in range(len(own)):
                own[k] = products[c, start + k, first_image]
            total = np.float32(0)
            for k in range(len(own)):
                total += held[k] * exp(beta * (own[k] - np.float32(1)))
            out[c, first_image] = alpha * total
            continue
        result = out[c, first_image:last_image]
        result[:] = 0
        for k in range(start, stop):
            if occupied[c, k]:
                row = products[c, k, first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += alpha * exp(beta * (row[lane] - np.float32(1)))


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _retrieval_of_one(
    products: Array,
    occupied: Array,
    gram: Array,
    stop: int,
    beta: np.float32,
    first_class: int,
    last_class: int,
    image: int,
    out: Array,
) -> None:
    """`retrieval_cosines` of a single image: with no lanes to run over, the loops run over the slots innermost."""
    own, weights, across = np.empty(stop, np.float32), np.empty(stop, np.float32), np.empty(stop, np.float32)
    for c in range(first_class, last_class):
        held, products_of_class, gram_of_class = occupied[c], products[c], gram[c]
        highest = np.float32(-np.inf)
        for k in range(stop):
            own[k] = products_of_class[k, image]
            highest = max(highest, own[k] if held[k] else highest)
        numerator, squared = np.float32(0), np.float32(0)
        for k in range(stop):  # an empty slot weighs nothing
            weights[k], across[k] = held[k] * exp(beta * min(own[k] - highest, np.float32(0))), 0
        for k in range(0, stop - 3, 4):  # G w as a sum of columns; four at a time, for short loops cost most to begin
            one, two, three, four = gram_of_class[k], gram_of_class[k + 1], gram_of_class[k + 2], gram_of_class[k + 3]
            a, b, d, e = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for j in range(stop):
                across[j] += a * one[j] + b * two[j] + d * three[j] + e * four[j]
        for k in range(stop // 4 * 4, stop):
            for j in range(stop):
                across[j] += weights[k] * gram_of_class[k, j]
        for k in range(stop):
            numerator += weights[k] * own[k]
            squared += weights[k] * across[k]
        out[c, image] = numerator / np.sqrt(max(squared, np.float32(1e-30)))  # Eq. 3, as a cosine


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def retrieval_cosines(
    products: Array,
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
    lanes = last_image - first_image
    if lanes == 1:
        _retrieval_of_one(products, occupied, gram, stop, beta, first_class, last_class, first_image, out)
        return
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
            row = products[c, used[i], first_image:last_image]
            for lane in range(lanes):
                highest[lane] = max(highest[lane], row[lane])
        for i in range(count):
            k = used[i]
            row = products[c, k, first_image:last_image]
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
    strengths = np.empty(last_image - first_image, np.float32)
    for c in range(first_class, last_class):
        for item in range(first_item, last_item):
            if not occupied[c, start + item]:
                continue
            row = products[c, start + item, first_image:last_image]
            for lane in range(len(row)):
                strengths[lane] = alpha * exp(beta * (row[lane] - np.float32(1)))
            for i in range(counts[c, item]):
                result = out[marked[c, item, i], first_image:last_image]
                for lane in range(len(row)):
                    result[lane] += strengths[lane]
