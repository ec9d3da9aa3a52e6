"""What a stream says of one image, and of many."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.notebook import prediction_html, predictions_html


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of one image: part name -> (C,), the fused probabilities (C,), and the best class.

    `unknown` is the probability that it shows none of the classes, where a guard asks for that; else 0.
    """

    parts: dict[str, Array]
    probabilities: Array
    label: int
    unknown: float = 0.0

    def _repr_html_(self) -> str:
        return prediction_html(self)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a method says of N images: part name -> (N, C), fused probabilities (N, C), and best classes (N,).

    `unknown` (N,) is the probability that each shows none of the classes, where a guard asks for that; else 0.
    """

    parts: dict[str, Array]
    probabilities: Array
    labels: NDArray[np.int64]
    unknown: Array | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        return predictions_html(self)


def prediction_of(parts: dict[str, Array], fused: Array, unknown: float = 0.0) -> Prediction:
    """A prediction that shares no array with whoever made it."""
    copies = {name: part.copy() for name, part in parts.items()}
    return Prediction(copies, fused.copy(), int(fused.argmax()), float(unknown))
