"""Stretches: what a fit asks of a ring of images, kept for the rows that have not changed since the last one.

Between two fits half of the ring or more stays as it is. So the images' folded features, their text cosines and their
scatter are found by stretches of STRETCH rows, each about the stretch's own mean, and put together (Chan's rule):

    X'X = sum_j X_j'X_j + sum_j n_j (m_j - m)(m_j - m)'

A stretch is always computed whole and in the same way, so what comes out is a function of the ring alone, bit for bit,
whatever was kept. Nothing of it is saved.

Features of more than WIDE dimensions are folded to FOLDED. A covariance costs d^2 multiplications per image, and a
memory of 2,048 images knows no more of 1,280 dimensions than of some hundreds: their answers are as good.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.engine.arrays import Array

STRETCH = 512  # rows of the ring
WIDE, FOLDED = 512, 320  # dimensions: features of more than the first are folded to the second
FEW_CLASSES = 64  # below, a product is faster the other way round, though it must be turned


class Seen(NamedTuple):
    """n images as a fit takes them."""

    images: Array  # (n, d), folded
    cosines: Array  # (C, n), with the text
    mean: Array  # (d,)
    scatter: Array | None  # (d, d): X'X, X the images less their mean; None: there are fewer images than dimensions


class Stretches:
    """A ring of images (slots, d), whoever writes it, and what is known of its rows."""

    def __init__(self, ring: Array, text: Array) -> None:
        slots, dim = ring.shape
        self._ring, self._text = ring, text
        self._folded: Array = np.zeros((slots, FOLDED), np.float32) if is_folded(dim) else ring
        # Of more classes than dimensions, the cosines would take more memory than the images.
        self._cosines: Array | None = np.zeros((len(text), slots), np.float32) if len(text) <= dim else None
        self._known = np.zeros(-(-slots // STRETCH), np.int64)  # rows of each stretch that are as they were
        self._means = np.zeros((len(self._known), self._folded.shape[1]), np.float32)
        self._scatters: dict[int, Array] = {}

    def changed(self, first: int, last: int) -> None:
        """These rows of the ring were written, up to the last, which was not."""
        self._known[first // STRETCH : -(-last // STRETCH)] = 0

    def doubt(self) -> None:
        """Any row of the ring may have been written; what was known of scatters takes no memory any longer."""
        self._known[:] = 0
        self._scatters.clear()

    def seen(self, images: int) -> Seen:
        """The first so many rows."""
        bounds = [(first, min(first + STRETCH, images)) for first in range(0, images, STRETCH)]
        dim = self._folded.shape[1]
        whole = images >= dim
        cosines = np.empty((len(self._text), images), np.float32) if self._cosines is None else self._cosines
        for number, (first, last) in enumerate(bounds):
            new = self._known[number] != last - first
            if new:
                self._fold(number, slice(first, last))
            if new or self._cosines is None:
                cosines[:, first:last] = across(self._text, self._ring[first:last])
            if whole and (new or number not in self._scatters):
                centered = self._folded[first:last] - self._means[number]
                self._scatters[number] = centered.T @ centered
            self._known[number] = last - first
        counts = np.array([last - first for first, last in bounds], np.float32)
        means = self._means[: len(bounds)]
        mean = counts @ means / np.float32(images)
        scatter = None
        if whole:
            off = np.sqrt(counts)[:, None] * (means - mean)
            scatter = off.T @ off
            for number in range(len(bounds)):
                scatter += self._scatters[number]
        return Seen(self._folded[:images], np.ascontiguousarray(cosines[:, :images]), mean, scatter)

    def _fold(self, number: int, rows: slice) -> None:
        """Fold a stretch anew; what was known of its scatter is so no longer."""
        if self._folded is not self._ring:
            self._folded[rows] = folded(self._ring[rows])
        self._means[number] = self._folded[rows].mean(axis=0)
        self._scatters.pop(number, None)


def across(classes: Array, images: Array) -> Array:
    """(C, n): the products of classes (C, d) with images (n, d)."""
    if len(classes) < FEW_CLASSES:
        return np.ascontiguousarray((images @ classes.T).T)
    return classes @ images.T


def is_folded(dim: int) -> bool:
    """Whether features of so many dimensions are folded."""
    return dim > WIDE


def folded(rows: Array) -> Array:
    """(n, FOLDED): stretches of the dimensions on top of each other, every second one with its sign changed.

    A projection that costs no product: each direction keeps about its share of the length.
    """
    found = rows[:, :FOLDED].copy()
    for sign, part in _turns(rows.shape[1]):
        on_top = found[:, : part.stop - part.start]
        (np.add if sign > 0 else np.subtract)(on_top, rows[:, part], out=on_top)
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
