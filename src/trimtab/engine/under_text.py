"""What the text says of a block's views, and whom a block asks to temper and level it."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import best_of, softmax_in_place


class Level(Protocol):
    """What puts names that speak louder than others on one level: `engine.leveling.TextLevel`."""

    gains: Array  # (C,)
    offsets: Array  # (C,)

    @property
    def is_even(self) -> bool:
        """Whether all names speak as they are."""

    def put_right(self, cosines: Array) -> None:
        """Level cosines (..., C), in place."""

    def pulled_back(self, slopes: Array) -> Array:
        """Slopes (..., C) along leveled cosines as slopes along the cosines themselves."""


class Temper(Protocol):
    """What finds the logit scale of each image: `engine.temper.TextTemper`."""

    @property
    def level(self) -> Level:
        """How loudly the names speak."""

    def scales(self, cosines: Array, counted: NDArray[np.bool_] | None) -> tuple[Array, Doubles]:
        """(B, C) -> (B,): the logit scales, each from the images before; (B, 3): the figures after each.

        Only images that are `counted` (B,) say anything about those after them; None: all do.
        """


class UnderText(NamedTuple):
    """What the text says of a block: of every view, and of the plain ones."""

    view_logits: Array  # (B, V, C)
    scales: Array  # (B,): the logit scales
    tempered: Doubles  # (B, 3): what a temper knows after each image
    logits: Array  # (B, C), and from here on of the plain views
    probabilities: Array  # (B, C)
    entropies: Array  # (B,)
    labels: NDArray[np.intp]  # (B,)


@njit(nogil=True)
def scaled_softmax(cosines: Array, scales: Array, out: Array, entropies: Array, best: NDArray[np.intp]) -> None:
    """Multiply each image's cosines (B, V, C) by its scale, in place: logits. Written: the softmax (B, C) of the first
    view's, its entropy (B,) and its likeliest class (B,).
    """
    for image in range(len(cosines)):
        cosines[image] *= scales[image]
        out[image] = cosines[image, 0]
        entropies[image] = softmax_in_place(out[image])
        best[image] = best_of(cosines[image, 0])
