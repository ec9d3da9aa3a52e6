"""Stretches: what a fit asks of a ring of images, kept for the rows that have not changed since the last one.

Between two fits half of the ring or more stays as it is. So the images' folded features, their text cosines and their
scatter are found by stretches of STRETCH rows, each about the stretch's own mean, and put together (Chan's rule):

    X'X = sum_j X_j'X_j + sum_j n_j (m_j - m)(m_j - m)'

Cosines are found by groups of GROUP rows, as soon as a group is written: then it is still near. A stretch, or a group,
is always computed whole and in the same way, so what comes out is a function of the ring alone, bit for bit, whatever
was kept. Nothing of it is saved.

Features of more than WIDE dimensions are folded to FOLDED. A covariance costs d^2 multiplications per image, and a
memory of 2,048 images knows no more of 1,280 dimensions than of some hundreds: their answers are as good.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.few_classes import across

STRETCH, GROUP = 512, 64  # rows of the ring
WIDE, FOLDED = 512, 320  # dimensions: features of more than the first are folded to the second


class Seen(NamedTuple):
    """n images as a fit takes them."""

    images: Array  # (n, d), folded
    cosines: Array  # (C, n), with the text
    mean: Array  # (d,)
    scatter: Array | None  # (d, d): X'X, X the images less their mean; None: there are fewer images than dimensions


class Stretches:
    """A ring of images (slots, d), and what is known of its rows."""

    def __init__(self, ring: Array, text: Array) -> None:
        slots, dim = ring.shape
        self._ring, self._text = ring, text
        self._folded: Array = np.zeros((slots, FOLDED), np.float32) if is_folded(dim) else ring
        # Of more classes than dimensions, the cosines would take more memory than the images.
        self._cosines: Array | None = np.zeros((len(text), slots), np.float32) if len(text) <= dim else None
        self._told = np.zeros(-(-slots // GROUP), np.int64)  # rows of each group whose cosines are known
        self._narrow = 0  # rows, from the first on, that are folded as they are
        self._known = np.zeros(-(-slots // STRETCH), np.int64)  # rows of each stretch that are as they were
        self._means = np.zeros((len(self._known), self._folded.shape[1]), np.float32)
        self._scatters: dict[int, Array] = {}

    def write(self, place: int, images: Array, narrow: Array) -> None:
        """Write images (n, d) into the ring from this place on; `narrow` are the same, folded."""
        last = place + len(images)
        self._ring[place:last] = images
        if self._folded is not self._ring and place <= self._narrow:
            self._folded[place:last] = narrow
            self._narrow = max(self._narrow, last)
        self._known[place // STRETCH : -(-last // STRETCH)] = 0
        self._told[place // GROUP : -(-last // GROUP)] = 0
        if self._cosines is not None:
            for group in range(place // GROUP, last // GROUP):
                self._tell(self._cosines, group, last)

    def doubt(self) -> None:
        """Anybody may have written any row of the ring; what was known of scatters takes no memory any longer."""
        self._known[:] = self._told[:] = 0
        self._scatters.clear()
        self._narrow = 0

    def seen(self, images: int) -> Seen:
        """The first so many rows."""
        bounds = [(first, min(first + STRETCH, images)) for first in range(0, images, STRETCH)]
        dim = self._folded.shape[1]
        whole = images >= dim
        if self._folded is not self._ring and images > self._narrow:
            _fold(self._ring, self._folded, self._narrow, images)
            self._narrow = images
        for number, (first, last) in enumerate(bounds):
            new = self._known[number] != last - first
            if new:
                self._means[number] = self._folded[first:last].mean(axis=0)
                self._scatters.pop(number, None)
            if whole and (new or number not in self._scatters):
                centered = self._folded[first:last] - self._means[number]
                self._scatters[number] = centered.T @ centered
            self._known[number] = last - first
        counts = np.array([last - first for first, last in bounds], np.float32)
        means = self._means[: len(bounds)]
        mean = counts @ means / np.float32(images)
        scatter = None
        if whole:
            off = means - mean
            scatter = (counts[:, None] * off).T @ off
            for number in range(len(bounds)):
                scatter += self._scatters[number]
        return Seen(self._folded[:images], self._cosines_of(images), mean, scatter)

    def _cosines_of(self, images: int) -> Array:
        """(C, n): the text's, with the first so many rows."""
        if self._cosines is None:
            return across(self._text, self._ring[:images])
        for group in range(-(-images // GROUP)):
            if self._told[group] != min(GROUP, images - GROUP * group):
                self._tell(self._cosines, group, images)
        return np.ascontiguousarray(self._cosines[:, :images])

    def _tell(self, cosines: Array, group: int, images: int) -> None:
        """Find the cosines of a group, which ends after GROUP rows or after so many images."""
        rows = slice(GROUP * group, min(GROUP * (group + 1), images))
        cosines[:, rows] = across(self._text, self._ring[rows])
        self._told[group] = rows.stop - rows.start


def is_folded(dim: int) -> bool:
    """Whether features of so many dimensions are folded."""
    return dim > WIDE


def folded(rows: Array) -> Array:
    """(n, d): the rows, folded if they are wide."""
    if not is_folded(rows.shape[1]):
        return rows
    found: Array = np.empty((len(rows), FOLDED), np.float32)
    _fold(rows, found, 0, len(rows))
    return found


def unfolded(rows: Array, dim: int) -> Array:
    """(n, dim): the rows whose products with features are those of `rows` with features that may be folded."""
    if not is_folded(dim):
        return rows
    return np.hstack([rows, *(sign * rows[:, : part.stop - part.start] for sign, part in _turns(dim))])


def _turns(dim: int) -> Iterator[tuple[np.float32, slice]]:
    """The stretches of the dimensions after the first, and their signs."""
    for count, first in enumerate(range(FOLDED, dim, FOLDED)):
        yield np.float32(count % 2 * 2 - 1), slice(first, min(first + FOLDED, dim))


@njit(nogil=True)
def _fold(rows: Array, folded: Array, first: int, last: int) -> None:
    """Write (n, FOLDED) for some rows: stretches of the dimensions on top of each other, every second one negative.

    A projection that costs no product: each direction keeps about its share of the length.
    """
    dim, width = rows.shape[1], folded.shape[1]
    for row in range(first, last):
        out = folded[row]
        out[:] = rows[row, :width]
        for turn, start in enumerate(range(width, dim, width)):
            part = rows[row, start : min(start + width, dim)]
            sign = np.float32(turn % 2 * 2 - 1)
            for k in range(len(part)):
                out[k] += sign * part[k]
