"""A second look at what was learned: would it be learned now, by what the stream has shown since?"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Doubles
from trimtab.engine.compiled import njit
from trimtab.guard.figures import ALONE, COMPARED, DEVIATION, HIGHEST, MEAN, SPREAD
from trimtab.guard.judging import LEARNED
from trimtab.guard.verdicts import TO_LEARN


@njit(nogil=True)
def _is_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> bool:
    """Whether an image's figures lie too many deviations above the medians."""
    for place, k in enumerate(COMPARED):
        deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
        if figures[place] - medians[0, k] > strange * deviation:
            return True
    return False


@njit(nogil=True)
def count_beyond(
    record: Doubles, counts: NDArray[np.int64], medians: Doubles, strange: float, floor: float
) -> tuple[int, int]:
    """How many images on record have figures that lie beyond, and of how many of them these are finite."""
    least = floor * medians[0, SPREAD]
    first = strange * max(DEVIATION * medians[1, HIGHEST], least)
    second = strange * max(DEVIATION * medians[1, MEAN], least)
    third = strange * max(DEVIATION * medians[1, ALONE], least)
    highest, mean, alone = medians[0, HIGHEST], medians[0, MEAN], medians[0, ALONE]
    beyond = finite = 0
    for image in range(min(counts[LEARNED], len(record))):  # `_is_beyond`, in vector instructions
        is_beyond = (
            (record[image, 0] - highest > first)
            | (record[image, 1] - mean > second)
            | (record[image, 2] - alone > third)
        )
        beyond += is_beyond
        finite += is_beyond & (record[image, 0] < np.inf)
    return beyond, finite


@njit(nogil=True)
def newly_beyond(
    record: Doubles,
    learned: int,
    medians: Doubles,
    strange: float,
    floor: float,
    verdicts: NDArray[np.int8],
    seen: int,
) -> NDArray[np.int64]:
    """The positions of images on record whose figures lie beyond. They are infinite from then on: told once, and still
    counted as strange.
    """
    found, count = np.empty(len(record), np.int64), 0
    position, oldest = seen - 1, max(0, seen - len(verdicts))
    for image in range(learned - 1, max(learned - len(record), 0) - 1, -1):  # the last first
        while position >= oldest and verdicts[position % len(verdicts)] != TO_LEARN:
            position -= 1
        if position < oldest:
            break
        figures = record[image % len(record)]
        if figures[0] < np.inf and _is_beyond(figures, medians, strange, floor):
            found[count] = position
            count += 1
            figures[:] = np.inf
        position -= 1
    return found[:count]
