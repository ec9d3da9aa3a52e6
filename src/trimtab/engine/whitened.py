"""WhitenedMemory: the last images of a stream, and what they say of the classes once all features are whitened.

Taking in an image is one row of a ring. Now and then, more often while the stream is young, the classes are fitted anew
(whitening.py); in between, an image's scores are one product, C x d, as its text logits are. When to fit is a function
of the number of images seen, so a block gives the same numbers as one image at a time.
"""

import numpy as np

from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.block import Block
from trimtab.engine.state import OwnArrays
from trimtab.engine.whitening import fit_classes

FIRST_FIT = 16  # images
GROWTH = 0.3  # the next fit, as a share of the images seen
LONGEST_WAIT = 256  # images between two fits; or as many as dimensions, so that a fit costs O(d^2) per image

SEEN, NEXT_FIT, AGREEMENT = range(3)  # places in the array of figures


class WhitenedMemory(OwnArrays):
    """A ring of images, and linear scores (C, d) of the classes."""

    def __init__(self, text: Array, slots: int, strength: float) -> None:
        classes, dim = text.shape
        self._text, self._strength = text, strength
        self.features: Array = np.zeros((slots, dim), np.float32)
        self.weights: Array = np.zeros((classes, dim), np.float32)
        self.offsets: Array = np.zeros(classes, np.float32)
        self.reliability: Array = np.zeros(classes, np.float32)
        self.figures = np.array([0.0, FIRST_FIT, 0.0])
        self._block: Block | None = None
        self._scores: Array = np.zeros((0, classes), np.float32)

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {
            "features": self.features,
            "weights": self.weights,
            "offsets": self.offsets,
            "reliability": self.reliability,
            "figures": self.figures,
        }

    def open(self, block: Block) -> None:
        """Score a block's images by the classes as they are fitted now."""
        self._block = block
        self._scores = block.queries @ self.weights.T + self.offsets

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

    def take_in(self, images: Array) -> None:
        """Remember images (n, d), at most `until_fit`, and fit the classes anew if it is time."""
        figures = self.figures
        places = (int(figures[SEEN]) + np.arange(len(images))) % len(self.features)
        self.features[places] = images
        figures[SEEN] += len(images)
        if figures[SEEN] == figures[NEXT_FIT]:
            self._fit()
            if self._block is not None:
                self.open(self._block)

    def _fit(self) -> None:
        seen, slots = int(self.figures[SEEN]), len(self.features)
        memory = self.features[: min(seen, slots)]
        found = fit_classes(memory, memory @ self._text.T, self._strength)
        self.weights[:], self.offsets[:], self.reliability[:] = found.weights, found.offsets, found.reliability
        wait = min(max(1, int(GROWTH * seen)), max(LONGEST_WAIT, self.features.shape[1]), slots)
        self.figures[NEXT_FIT], self.figures[AGREEMENT] = seen + wait, found.agreement
