"""How often answers will be right, from witnesses that need no label.

Cut the features' dimensions in two. Each half has its own cosines with the texts, and with them an answer of its own.
Halves err in different ways, so they agree where the text is good. Both have their habits (some names are near to every
image), so the mean cosine over the images so far is taken off first: habits would agree whatever the image shows.
Retrieval, which asks the images that are kept, is another witness of what the whole text says, less its habits.

    odds(right) = (odds(the halves agree) * odds(text and retrieval agree)) ** AGREED * odds(stated) ** STATED

where `stated` is the text's mean confidence at the logit scale that came with the encoder. All are means over the last
images. docs/calibration.md has the study: where this is off, and by how much.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block, Image
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import best_of
from trimtab.engine.products import dot
from trimtab.engine.state import OwnArrays

AGREED, STATED = 0.8, 0.4  # exponents, found on nine of eighteen stores each (docs/calibration.md)
WINDOW, WARM_UP = 200.0, 20.0  # images that the agreements speak of; images' worth of doubt at the start
HABIT_WINDOW = 2000.0  # images that a habit speaks of
DOUBT = 0.5  # agreement before anything is known
EXTREME = 0.02  # no share is taken to be nearer to 0 or 1 than this
MANY = 1000  # classes, from which on one image in so many thousands is asked: half a text's products are not free

SEEN, HALVES, RETRIEVED = range(3)  # places in the array of figures
LEARNED = np.ones(1, np.bool_)  # of a single image


class TextHalves(OwnArrays):
    """The habits of both halves, and three running figures."""

    def __init__(self, classes: int) -> None:
        self._every = max(1, classes // MANY)
        self.habits = np.zeros((2, classes))  # mean cosines
        self.figures = np.array([0.0, DOUBT, DOUBT])

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"habits": self.habits, "figures": self.figures}

    def learn(self, block: Block, rows: slice, retrieval: Array, learned: NDArray[np.bool_]) -> None:
        """Say how sure the answers to some images of a block should be, and take in those that are `learned` (n,) from.

        `retrieval` (n, C) is what the kept images say of them.
        """
        if block.sure is None or not learned.any():
            return
        wait, every = -int(self.figures[SEEN]) % self._every, self._every
        asked = slice(wait, None, every) if learned.all() else np.flatnonzero(learned)[wait::every]
        text = block.task.text_prototypes if block.text is None else block.text
        images, logits, scales = (each[rows][asked] for each in (block.queries, block.logits, block.logit_scales))
        half, logits, scales = _half_products(text, images), np.ascontiguousarray(logits), np.ascontiguousarray(scales)
        _learn(self.habits, self.figures, half, logits, scales, retrieval, learned, every, block.sure[rows])

    def take_in(self, image: Image, retrieval: Array) -> None:
        """The same for one image; `retrieval` (C,) is what the kept images say of it."""
        self.learn(image.block, slice(image.row, image.row + 1), retrieval[None], LEARNED)


def _half_products(text: Array, images: Array) -> Array:
    """(n, C): the products of the first half of the dimensions."""
    half = text.shape[1] // 2
    if len(images) != 1:
        return images[:, :half] @ text[:, :half].T
    products = np.empty((1, len(text)), np.float32)
    _products_of_one(text, images[0], half, products[0])
    return products


@njit(nogil=True)
def _products_of_one(text: Array, image: Array, half: int, out: Array) -> None:
    for c in range(len(text)):
        out[c] = dot(text[c, :half], image[:half])


@njit(nogil=True)
def _log_odds(share: float) -> float:
    kept = min(max(share, EXTREME), 1 - EXTREME)
    return np.log(kept / (1 - kept))


@njit(nogil=True)
def _named(half: Array, logits: Array, scale: float, habits: Doubles) -> tuple[int, int, int]:
    """The classes that both halves and the whole name, less their habits."""
    first, second, both = 0, 0, 0
    highest_first, highest_second, highest_both = -np.inf, -np.inf, -np.inf
    for c in range(len(half)):
        one, other = half[c] - habits[0, c], logits[c] / scale - half[c] - habits[1, c]
        if one > highest_first:
            highest_first, first = one, c
        if other > highest_second:
            highest_second, second = other, c
        if one + other > highest_both:
            highest_both, both = one + other, c
    return first, second, both


@njit(nogil=True)
def _learn(
    habits: Doubles,
    figures: Doubles,
    half: Array,
    logits: Array,
    scales: Array,
    retrieval: Array,
    learned: NDArray[np.bool_],
    every: int,
    sure: Doubles,
) -> None:
    """`half`, `logits` (m, C) and `scales` (m,) are those of every so many of the images that are learned from."""
    asked = 0
    for place in range(len(learned)):
        if not learned[place]:
            continue
        agreed = _log_odds(figures[HALVES]) + _log_odds(figures[RETRIEVED])
        sure[place] = 1 / (1 + np.exp(-AGREED * agreed - STATED * _log_odds(sure[place])))
        if figures[SEEN] % every == 0:
            before = np.floor(figures[SEEN] / every)
            if before > 0:
                first, second, both = _named(half[asked], logits[asked], scales[asked], habits)
                step = 1 / (min(before, WINDOW) + WARM_UP)
                figures[HALVES] += step * ((1.0 if first == second else 0.0) - figures[HALVES])
                backed = 1.0 if best_of(retrieval[place]) == both else 0.0
                figures[RETRIEVED] += step * (backed - figures[RETRIEVED])
            share = 1 / min(before + 1, HABIT_WINDOW)
            for c in range(len(habits[0])):
                habits[0, c] += share * (half[asked, c] - habits[0, c])
                habits[1, c] += share * (logits[asked, c] / scales[asked] - half[asked, c] - habits[1, c])
            asked += 1
        figures[SEEN] += 1
