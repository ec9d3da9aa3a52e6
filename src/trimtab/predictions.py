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

    @property
    def score(self) -> float:
        """How clear the answer is, 0 to 1, made for thresholds: the best class's probability less the second's.

        It sorts right answers from wrong ones better than the probability does (docs/calibration.md).
        """
        return float(clearness(self.probabilities[None])[0])

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

    @property
    def scores(self) -> Array:
        """(N,): how clear each answer is, as `Prediction.score`."""
        return clearness(self.probabilities)

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        return predictions_html(self)


def clearness(probabilities: Array) -> Array:
    """(N,): by how much the best of (N, C) probabilities exceeds the second; a single class is wholly clear."""
    if probabilities.shape[1] == 1:
        return probabilities[:, 0].copy()
    highest: Array = np.partition(probabilities, -2, axis=1)[:, -2:]
    return highest[:, 1] - highest[:, 0]


def prediction_of(parts: dict[str, Array], fused: Array, unknown: float = 0.0) -> Prediction:
    """A prediction that shares no array with whoever made it."""
    copies = {name: part.copy() for name, part in parts.items()}
    return Prediction(copies, fused.copy(), int(fused.argmax()), float(unknown))
