"""Medians of a window of figures, looked for where they were before.

Of a window that has moved on by a few images the median is a few places away from the last one. Walking there takes one
pass over the window per place, in vector instructions and without a branch that could be mispredicted. Selecting, which
has one at every step, took more than half of the time of a verdict.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Doubles
from trimtab.engine.compiled import njit

LAST = np.int64(np.iinfo(np.int64).max)

Keys = NDArray[np.int64]


@njit(nogil=True)
def renew_medians(window: Doubles, compared: tuple[int, ...], medians: Doubles) -> None:
    """Write the medians (n,) of the window's columns (images, n), and the median deviations of those `compared`.

    `medians` (2, n) holds those of before. Whatever they were, the result is the same.
    """
    keys = np.empty(len(window), np.int64)
    for k in range(window.shape[1]):
        for image in range(len(window)):
            keys[image] = _key(window[image, k])
        medians[0, k] = _median_from(keys, medians[0, k])
    for k in compared:
        for image in range(len(window)):
            keys[image] = _key(abs(window[image, k] - medians[0, k]))
        medians[1, k] = _median_from(keys, medians[1, k])


@njit(nogil=True)
def median(values: Doubles) -> float:
    """Of (n,) numbers; where nothing is known of before, their mean is a start."""
    keys = np.empty(len(values), np.int64)
    for k in range(len(values)):
        keys[k] = _key(values[k])
    return _median_from(keys, values.mean())


@njit(nogil=True)
def _key(value: float) -> np.int64:
    """A whole number in the same order, by the bits: the highest of those is found in vector instructions."""
    bits = np.float64(value).view(np.int64)
    return np.int64(bits ^ ((bits >> 63) & LAST))  # of a number below 0 the bits count backward


@njit(nogil=True)
def _number(key: np.int64) -> np.float64:
    """The number that has this key."""
    return np.int64(key ^ ((key >> 63) & LAST)).view(np.float64)


@njit(nogil=True)
def _median_from(keys: Keys, start: float) -> float:
    """The median of the numbers that have these keys (n,); the closer it is to the start, the sooner it is found."""
    middle, key, after, up_to = (len(keys) - 1) // 2, _key(start), LAST, 0
    for _ in range(len(keys) + 1):  # the start, and each number at most once
        below, up_to, before, after = _around(keys, key)
        if below <= middle < up_to:
            break
        key = before if middle < below else after
    value = _number(key)
    return value if len(keys) // 2 < up_to else (value + _number(after)) / 2


@njit(nogil=True)
def _around(keys: Keys, key: np.int64) -> tuple[int, int, np.int64, np.int64]:
    """How many keys lie below one, and how many do not lie above it; and the next below and above."""
    below, up_to, before, after = 0, 0, -LAST, LAST
    for k in range(len(keys)):
        below += keys[k] < key
        up_to += keys[k] <= key
        before = max(before, keys[k] if keys[k] < key else -LAST)
        after = min(after, keys[k] if keys[k] > key else LAST)
    return below, up_to, before, after
