"""The arithmetic of compiled loops: exponentials, the highest of many, softmax. The tests compare each with NumPy.

Sums may be reordered (`reassoc`, `contract`); nothing else is relaxed. Rows are sliced before they are walked, and
divisions are NumPy's: an index below 0 or a check for 0 keeps loops scalar.
"""

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit

VECTORIZE = {"reassoc", "contract", "nsz"}  # sums may be reordered; nothing else is relaxed
STRETCH = 256  # numbers that are searched at once
LOWEST, HIGHEST = np.int32(np.iinfo(np.int32).min), np.int32(np.iinfo(np.int32).max)


@njit(nogil=True)
def ramp(value: float, low: float, high: float) -> float:
    """From 0 up to the lower bound to 1 from the higher one on."""
    return min(max((value - low) / (high - low), 0.0), 1.0)


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


@njit(fastmath=VECTORIZE, nogil=True)
def confidence_of(logits: Array, factor: np.float32) -> float:
    """How probable the best of (C,) logits is once they are multiplied by a factor."""
    highest, total = highest_of(logits), np.float32(0)
    for c in range(len(logits)):
        total += exp(factor * (logits[c] - highest))
    return float(1 / total)


@njit(nogil=True)
def best_of(values: Array) -> int:
    """Where the highest of (C,) numbers stands; of equals, the first.

    Of whole numbers in the same order, both the highest and its place are found in vector instructions: twice as fast.
    """
    highest, place = LOWEST, np.int32(len(values))
    for c in range(len(values)):
        highest = max(highest, key_of(values[c]))
    for c in range(len(values)):
        place = min(place, np.int32(c) if key_of(values[c]) == highest else np.int32(len(values)))
    return int(place)


@njit(nogil=True)
def key_of(value: np.float32) -> np.int32:
    """A whole number in the same order, by the bits: of a number below 0 they count backward, and -0 equals 0."""
    bits = np.float32(value).view(np.int32)
    below = bits >> np.int32(31)  # -1 below 0, else 0
    return np.int32((bits ^ (below & HIGHEST)) - below)


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
