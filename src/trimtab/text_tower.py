"""TextTower: text that learns, behind one small door.

Prompt learning needs of a text encoder its forward pass and its pull-back, and nothing else. NumPy is at the border, so
the methods stay free of torch and run on features that were encoded once.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class TextTower(Protocol):
    """The text encoder of a task's classes, as a function of the context that stands before (or around) their names.

    A context is (L, w), shared by all classes, or (C, L, w), one for each class: L embeddings of the tower's width w.
    """

    @property
    def start(self) -> Array:
        """The context that learning begins with: the embeddings of the given words, or an array that was given."""

    @property
    def fingerprint(self) -> str:
        """A hash of all that learning depends on: weights, class names, where the context stands, and its start."""

    @property
    def operations(self) -> float | None:
        """What one pass of all classes takes, as the released programs make it; None: not known, so not counted."""

    def features(self, context: Array) -> Array:
        """(C, d): the unit text features of all classes under a context."""

    def pullback(self, context: Array, slopes: Array) -> Array:
        """The gradient at the context, in its shape, of a loss whose gradient at the features is `slopes` (C, d)."""
