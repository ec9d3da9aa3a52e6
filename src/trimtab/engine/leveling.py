"""Names that speak louder than others, found from the stream and put on one level.

From image to image, a name's cosine varies by some deviation, and names that one text tower has made vary about alike.
Names that come from elsewhere do not. Where they were translated into the encoder's space by the texts that both know,
those near a known text lie far from all others, and the rest in the middle between them: the first are named for every
image that is a little like them, the others never. A stream shows it without labels. With u_c the cosine less the
image's mean over the names, m_c and s_c its mean and deviation over the images that are (softly) not of class c, and s
the geometric mean of all s_c:

    u_c  ->  (u_c - m_c) / (s_c / s)^a + (1 - a) m_c

The share a is 0, and nothing changes to the bit, where the log deviations spread by no more than USUAL: there what a
name often sees is often there. From UNEQUAL on it is MOST. Images of N classes spread them by 1 / 2N in square by
chance alone, which is taken off: in a stream that has shown few classes so far, names only seem unequal.

docs/weights-without-labels.md has the study.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import VECTORIZE, ramp

USUAL, UNEQUAL = 0.3, 0.45  # deviation of the log deviations: of names alike, and of names far from it
MOST = 0.5  # half of the way: a name that is better known may be louder with good reason
WARM_UP = 20.0  # images' worth of caution about each name
WINDOW = 2000.0  # images that the sums speak of
MANY = 250  # of C names, one image in C / MANY is asked

WEIGHT, TOTAL, SQUARES, NAMED = range(4)  # rows of the sums


class TextLevel:
    """Sums over the images so far, and what follows from them until stock is taken again."""

    def __init__(self, classes: int) -> None:
        self._every = max(1, classes // MANY)
        self.sums = np.zeros((4, classes))  # of images not of the class: weight, u, u^2; and how often it was named
        self.gains: Array = np.ones(classes, np.float32)
        self.offsets: Array = np.zeros(classes, np.float32)
        self.share = np.zeros(1)  # a
        self._code: Callable[..., None] | None = None  # of the loop that lets images count

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"sums": self.sums, "gains": self.gains, "offsets": self.offsets, "share": self.share}

    @property
    def is_even(self) -> bool:
        """Whether all names speak as they are."""
        return not self.share[0]

    def put_right(self, cosines: Array) -> None:
        """Level cosines (..., C), in place."""
        if not self.is_even:
            _put_right(cosines.reshape(-1, cosines.shape[-1]), self.gains, self.offsets)

    def by_class(self, cosines: Array) -> Array:
        """(C, n): cosines class by class, leveled."""
        if self.is_even:
            return cosines
        own: Array = cosines - cosines.mean(axis=0)
        own *= self.gains[:, None]
        own += self.offsets[:, None]
        return own

    def pulled_back(self, slopes: Array) -> Array:
        """Slopes (..., C) along leveled cosines as slopes along the cosines themselves."""
        if self.is_even:
            return slopes
        own = self.gains * slopes
        return own - own.mean(axis=-1, keepdims=True)

    def take_in(self, block: Block, first: int, last: int, counted: NDArray[np.bool_]) -> None:
        """Let the images first..last of a block count, those that are `counted` (B,) and asked."""
        asked = block.first, self._every
        given = (*block.said_of_plain_views, counted, first, last, asked, self.gains, self.offsets, self.sums)
        self._code = self._code or code_for(_take_in, *given)
        self._code(*given)

    def take_stock(self) -> None:
        """Find the level anew."""
        weight, total, squares, named = self.sums
        images = named.sum()
        if not images:
            return
        off = np.maximum(squares - total * total / np.maximum(weight, 1e-9), 0)
        usual = max(off.sum() / max(weight.sum(), 1e-9), 1e-12)
        loud = 0.5 * np.log((off + WARM_UP * usual) / (weight + WARM_UP))
        loud -= loud.mean()
        shares = named[named > 0] / images
        classes_shown = np.exp(-(shares * np.log(shares)).sum())
        spread = np.sqrt(max(float((loud * loud).mean()) - 0.5 / classes_shown, 0.0))
        share = MOST * ramp(spread, USUAL, UNEQUAL)
        habit = total / (weight + WARM_UP)
        self.share[0] = share
        self.gains[:] = np.exp(-share * loud)
        self.offsets[:] = ((1 - share) - self.gains) * habit if share else 0.0
        self.sums *= min(1.0, WINDOW / images)


@njit(nogil=True)
def _put_right(cosines: Array, gains: Array, offsets: Array) -> None:
    for image in range(len(cosines)):
        level_row(cosines[image], gains, offsets)


@njit(nogil=True)
def level_row(cosines: Array, gains: Array, offsets: Array) -> None:
    """Level one image's cosines (C,), in place."""
    mean = _mean(cosines)
    for c in range(len(cosines)):
        cosines[c] = (cosines[c] - mean) * gains[c] + offsets[c]


@njit(nogil=True, error_model="numpy")
def unlevel_row(logits: Array, scale: np.float32, gains: Array, offsets: Array, cosines: Array) -> None:
    """Write (C,): the cosines that one image's leveled logits were made of, less their mean."""
    for c in range(len(cosines)):
        cosines[c] = (logits[c] / scale - offsets[c]) / gains[c]


@njit(nogil=True)
def pull_back_row(slopes: Array, gains: Array) -> None:
    """Make slopes (C,) along leveled cosines those along the cosines themselves, in place."""
    for c in range(len(slopes)):
        slopes[c] *= gains[c]
    mean = _mean(slopes)
    for c in range(len(slopes)):
        slopes[c] -= mean


@njit(fastmath=VECTORIZE, nogil=True)
def _mean(row: Array) -> np.float32:
    total = np.float32(0)
    for c in range(len(row)):
        total += row[c]
    return total / np.float32(len(row))


@njit(nogil=True, error_model="numpy")
def _take_in(
    logits: Array,
    scales: Array,
    said: Array,
    labels: NDArray[np.intp],
    counted: NDArray[np.bool_],
    first: int,
    last: int,
    asked: tuple[int, int],
    gains: Array,
    offsets: Array,
    sums: Doubles,
) -> None:
    cosines, (position, every) = np.empty(logits.shape[1], np.float32), asked
    for image in range(first, last):
        if not counted[image] or (position + image) % every:
            continue
        unlevel_row(logits[image], scales[image], gains, offsets, cosines)
        mean = _mean(cosines)
        for c in range(len(cosines)):
            own, other = cosines[c] - mean, np.float32(1) - said[image, c]
            sums[WEIGHT, c] += other
            sums[TOTAL, c] += other * own
            sums[SQUARES, c] += other * own * own
        sums[NAMED, labels[image]] += 1
