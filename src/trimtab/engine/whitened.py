"""WhitenedMemory: the last images of a stream, and what they say of the classes once all features are whitened.

Taking in an image is one row of a ring. Now and then, more often while the stream is young, the classes are fitted anew
(whitening.py); in between, an image's scores are one product, C x d, as its text logits are. When to fit is a function
of the number of images seen, so a block gives the same numbers as one image at a time.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.block import Block
from trimtab.engine.leveling import TextLevel
from trimtab.engine.once import once
from trimtab.engine.relations import Relations
from trimtab.engine.state import OwnArrays
from trimtab.engine.stretches import STRETCH, Stretches, folded, is_folded, unfolded
from trimtab.engine.whitening import NO_ANSWER, fit_classes
from trimtab.errors import TrimtabError

FIRST_FIT = 16  # images
GROWTH = 0.3  # the next fit, as a share of the images seen

FOLDED_FORCE = 0.8  # of discriminants in folded features: fewer dimensions make the rounds surer of themselves

SEEN, NEXT_FIT, AGREEMENT = range(3)  # places in the array of figures


class WhitenedMemory(OwnArrays):
    """A ring of images, and linear scores (C, d) of the classes."""

    def __init__(self, text: Array, slots: int, strength: float, level: TextLevel) -> None:
        classes, dim = text.shape
        self._text = text
        self._level = level  # of the text's names, which whoever asks the text finds
        self._force = FOLDED_FORCE if is_folded(dim) else 1.0
        self._strength = strength * self._force
        self.features: Array = np.zeros((slots, dim), np.float32)
        self._stretches = Stretches(self.features, text)
        self.sources = np.full(slots, -1, np.int64)  # position in the stream of each image
        self.answers = np.full(slots, NO_ANSWER, np.int64)  # what a human has said it shows
        self.weights: Array = np.zeros((classes, dim), np.float32)
        self.offsets: Array = np.zeros(classes, np.float32)
        self.reliability: Array = np.zeros(classes, np.float32)
        self.habit: Array = np.zeros(classes, np.float32)  # of the text's cosines
        self.figures = np.array([0.0, FIRST_FIT, 0.0])
        self._block: Block | None = None
        self._queries: Array = np.zeros((0, dim), np.float32)  # of the block, folded
        self._scores: Array = np.zeros((0, classes), np.float32)

    def arrays(self) -> Arrays:
        """Everything learned."""
        self._stretches.doubt()  # whoever asks for the live arrays may write to them
        return {
            "features": self.features,
            "sources": self.sources,
            "answers": self.answers,
            "weights": self.weights,
            "offsets": self.offsets,
            "reliability": self.reliability,
            "habit": self.habit,
            "figures": self.figures,
        }

    def open(self, block: Block) -> None:
        """Score a block's images by the classes as they are fitted now."""
        self._block, self._queries = block, folded(block.queries)
        self._score()

    def hold(self) -> Callable[[], None]:
        """Remember what the next image overwrites; what is returned puts it back."""
        figures = self.figures.copy()
        place = int(figures[SEEN]) % len(self.features)
        row, source, answer = self.features[place : place + 1].copy(), self.sources[place], self.answers[place]
        model = (
            (self.weights, self.offsets, self.reliability, self.habit) if figures[SEEN] + 1 == figures[NEXT_FIT] else ()
        )
        fitted = [array.copy() for array in model]

        def put_back() -> None:
            refitted = self.figures[NEXT_FIT] != figures[NEXT_FIT]
            self._stretches.write(place, row, folded(row))
            self.sources[place], self.answers[place], self.figures[:] = source, answer, figures
            for live, before in zip(model, fitted, strict=True):
                live[:] = before
            if refitted:
                self._score()

        return put_back

    @property
    def fitted(self) -> bool:
        """Whether the classes are known at all."""
        return bool(self.figures[SEEN] >= FIRST_FIT)

    @property
    def agreement(self) -> float:
        """How often text and memory name the remembered images alike."""
        return float(self.figures[AGREEMENT])

    @property
    def until_fit(self) -> int:
        """How many images may be taken in before the classes are fitted anew; with the last of them they are."""
        return int(self.figures[NEXT_FIT] - self.figures[SEEN])

    def scores(self, rows: slice) -> Array:
        """(n, C): the discriminants of some of the block's images; 0 before the first fit."""
        return self._scores[rows]

    def take_in(self, rows: slice) -> None:
        """Remember some of the block's images, at most `until_fit`, and fit the classes anew if it is time."""
        if self._block is None:
            raise TrimtabError("No block is open, so there is nothing to remember; call memory.open(block) first.")
        figures, slots, first = self.figures, len(self.features), rows.start
        while first < rows.stop:  # by slices, copied faster than single rows; the ring may end in between
            place = int(figures[SEEN]) % slots
            some = slice(first, min(rows.stop, first + slots - place))
            count = some.stop - first
            self._stretches.write(place, self._block.queries[some], self._queries[some])
            position = self._block.first + first
            self.sources[place : place + count] = np.arange(position, position + count)
            self.answers[place : place + count] = NO_ANSWER
            figures[SEEN] += count
            first = some.stop
        if figures[SEEN] == figures[NEXT_FIT]:
            self._fit()
            self._score()

    def positions(self) -> set[int]:
        """Positions in the stream of the images that are remembered."""
        return set(self.sources[self.sources >= 0].tolist())

    def forget(self, positions: NDArray[np.int64]) -> int:
        """Let go of images; the classes are fitted to the others anew, or not known if these are too few for a fit."""
        held = self.sources >= 0
        gone = np.isin(self.sources, positions) & held
        if gone.any():
            stay = np.flatnonzero(held & ~gone)
            self._keep_only(stay[self.sources[stay].argsort()])
        return int(gone.sum())

    def _keep_only(self, rows: NDArray[np.intp]) -> None:
        """Remember these rows of the ring alone, given the oldest first."""
        for ring, nothing in ((self.features, 0), (self.sources, -1), (self.answers, NO_ANSWER)):
            ring[: len(rows)], ring[len(rows) :] = ring[rows], nothing
        self._stretches.doubt()
        self.figures[:] = len(rows), FIRST_FIT, 0
        if self.fitted:
            self._fit()
        else:
            for array in (self.weights, self.offsets, self.reliability, self.habit):
                array[:] = 0

    def correct(self, position: int, label: int) -> int:
        """Take a human's word for what an image shows, and fit the classes anew; 1 if it is remembered, else 0."""
        held = self.sources == position
        self.answers[held] = label
        if held.any():
            self._fit_again()
        return int(held.any())

    @once
    def _relations(self) -> Relations:
        """How the classes are related by their names."""
        return Relations(self._text)

    def _fit_again(self) -> None:
        """Fit the classes before it is time, if they were fitted at all; the next fit comes when it would have come."""
        if self.fitted:
            due = self.figures[NEXT_FIT]
            self._fit()
            self.figures[NEXT_FIT] = due

    def _score(self) -> None:
        """Score the block's images. Weights are as wide as features: folded, they are what they begin with."""
        self._scores = self._queries @ self.weights[:, : self._queries.shape[1]].T
        self._scores += self.offsets

    def _fit(self) -> None:
        seen, (slots, dim) = int(self.figures[SEEN]), self.features.shape
        remembered = self._stretches.seen(min(seen, slots))
        remembered = remembered._replace(cosines=self._level.by_class(remembered.cosines))
        answers = self.answers[: len(remembered.images)]
        found = fit_classes(remembered, self._strength, answers, self._relations)
        self.weights[:] = self._force * unfolded(found.weights, dim)
        self.offsets[:] = self._force * found.offsets
        self.reliability[:], self.habit[:] = found.reliability, found.habit
        self.figures[NEXT_FIT], self.figures[AGREEMENT] = _next_fit(seen, slots), found.agreement


def _next_fit(seen: int, slots: int) -> int:
    """How many images will have been seen when the classes are fitted anew: 30 % more, or half a turn of the ring.

    From a full ring on, at the end of a stretch where there are any: then none is half new.
    """
    due = seen + min(max(1, int(GROWTH * seen)), slots // 2)
    return due if due < slots or slots % STRETCH else round(due / STRETCH) * STRETCH
