"""How often answers will be right, from witnesses that need no label.

Cut the features' dimensions in two. Each half has its own cosines with the texts, and with them an answer of its own.
Halves err in different ways, so they agree where the text is good. Both have their habits (some names are near to every
image), so the mean cosine over the images so far is taken off first: habits would agree whatever the image shows.
Retrieval, which asks the images that are kept, is another witness of what the whole text says, less its habits.

    odds(right) = (odds(the halves agree) * odds(text and retrieval agree)) ** AGREED
                  * odds(stated) ** STATED * min(C, MANY) ** FEW / e

where `stated` is the text's mean confidence at the logit scale that came with the encoder, and C the number of classes:
where there are few, witnesses that know nothing agree by chance. All are means over the last images. While there are
few images, the log odds are drawn to those that are stated. docs/calibration.md has the study: where this is off, and
by how much.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import LEARNED, Block, Image
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import best_of
from trimtab.engine.leveling import unlevel_row
from trimtab.engine.products import dot
from trimtab.engine.state import OwnArrays

AGREED, STATED, FEW = 0.65, 0.4, 0.25  # exponents (docs/calibration.md)
MANY = 100  # classes; with more, witnesses agree by chance no less often
WINDOW, WARM_UP = 200.0, 20.0  # images that the agreements speak of; as many as what is stated counts for alone
HABIT_WINDOW = 2000.0  # images that a habit speaks of
UNKNOWN = 0.5  # agreement before anything is known
EXTREME = 0.02  # no share is taken to be nearer to 0 or 1 than this
ASKED = 250  # of C classes, one image in C / ASKED is asked: half a text's products are not free

SEEN, HALVES, RETRIEVED = range(3)  # places in the array of figures


class TextHalves(OwnArrays):
    """The habits of both halves, and three running figures."""

    def __init__(self, classes: int) -> None:
        self._every = max(1, classes // ASKED)
        self.habits = np.zeros((2, classes))  # mean cosines
        self.figures = np.array([0.0, UNKNOWN, UNKNOWN])
        self._code: Callable[..., None] | None = None  # of the loop that takes in a single image

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"habits": self.habits, "figures": self.figures}

    def learn(self, block: Block, rows: slice, retrieval: Array, learned: NDArray[np.bool_]) -> None:
        """Say how sure the answers to some images of a block should be, and take in those that are `learned` (n,) from.

        `retrieval` (n, C) is what the kept images say of them.
        """
        if block.sure is None or block.temper is None:
            return
        every, figures = self._every, self.figures
        text = block.task.text_prototypes if block.text is None else block.text
        images, sure = block.queries[rows], block.sure[rows]
        level = block.temper.level  # answers of halves are those of names as they are
        said = block.logits[rows], block.logit_scales[rows], level.gains, level.offsets, retrieval
        if len(learned) == 1:
            given = (self.habits, figures, text, images, *said, learned, every, sure)
            self._code = self._code or code_for(_learn_one, *given)
            self._code(*given)
        else:
            half_dim, asked = text.shape[1] // 2, np.flatnonzero(learned)[-int(figures[SEEN]) % every :: every]
            half = images[asked, :half_dim] @ text[:, :half_dim].T
            _learn(self.habits, figures, half, *said, learned, every, sure)

    def take_in(self, image: Image, retrieval: Array) -> None:
        """The same for one image; `retrieval` (C,) is what the kept images say of it."""
        self.learn(image.block, slice(image.row, image.row + 1), retrieval[None], LEARNED)


@njit(nogil=True)
def _log_odds(share: float) -> float:
    kept = min(max(share, EXTREME), 1 - EXTREME)
    return np.log(kept / (1 - kept))


@njit(nogil=True)
def _right(figures: Doubles, every: int, stated: float, classes: int) -> float:
    """How often answers will be right; `stated` is how sure the text says it is."""
    compared = max(np.ceil(figures[SEEN] / every) - 1, 0.0)  # images; the first has no habits to be judged by
    agreed, said = _log_odds(figures[HALVES]) + _log_odds(figures[RETRIEVED]), _log_odds(stated)
    found = AGREED * agreed + STATED * said + FEW * np.log(min(classes, MANY)) - 1
    return 1 / (1 + np.exp(-(compared * found + WARM_UP * said) / (compared + WARM_UP)))


@njit(nogil=True)
def _named(half: Array, whole: Array, habits: Doubles) -> tuple[int, int, int]:
    """The classes that both halves and the whole name, less their habits."""
    first, second, both = 0, 0, 0
    highest_first, highest_second, highest_both = -np.inf, -np.inf, -np.inf
    for c in range(len(half)):
        one, other = half[c] - habits[0, c], whole[c] - half[c] - habits[1, c]
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
    gains: Array,
    offsets: Array,
    retrieval: Array,
    learned: NDArray[np.bool_],
    every: int,
    sure: Doubles,
) -> None:
    """`half` (m, C) has a row for every so many of the images that are learned from, all else for every image."""
    asked, whole = 0, np.empty(logits.shape[1], np.float32)
    for place in range(len(learned)):
        sure[place] = _right(figures, every, sure[place], logits.shape[1])
        if not learned[place]:
            continue
        if figures[SEEN] % every == 0:
            before = np.floor(figures[SEEN] / every)
            unlevel_row(logits[place], scales[place], gains, offsets, whole)
            if before > 0:
                first, second, both = _named(half[asked], whole, habits)
                step = 1 / min(before, WINDOW)
                figures[HALVES] += step * ((1.0 if first == second else 0.0) - figures[HALVES])
                backed = 1.0 if best_of(retrieval[place]) == both else 0.0
                figures[RETRIEVED] += step * (backed - figures[RETRIEVED])
            share = 1 / min(before + 1, HABIT_WINDOW)
            for c in range(len(habits[0])):
                habits[0, c] += share * (half[asked, c] - habits[0, c])
                habits[1, c] += share * (whole[c] - half[asked, c] - habits[1, c])
            asked += 1
        figures[SEEN] += 1


@njit(nogil=True)
def _learn_one(
    habits: Doubles,
    figures: Doubles,
    text: Array,
    images: Array,
    logits: Array,
    scales: Array,
    gains: Array,
    offsets: Array,
    retrieval: Array,
    learned: NDArray[np.bool_],
    every: int,
    sure: Doubles,
) -> None:
    """The same for a single image, whose products with a half of the text are found on the way, if they are asked."""
    asked = figures[SEEN] % every == 0
    half = np.empty((1, len(text) if asked else 0), np.float32)
    dim = images.shape[1] // 2
    for c in range(half.shape[1]):
        half[0, c] = dot(text[c, :dim], images[0, :dim])
    _learn(habits, figures, half, logits, scales, gains, offsets, retrieval, learned, every, sure)
