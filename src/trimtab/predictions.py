"""What a stream says of one image, and of many."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.notebook import prediction_html, predictions_html


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of one image: part name -> (C,), the fused probabilities (C,), and the best class."""

    parts: dict[str, Array]
    probabilities: Array
    label: int

    def _repr_html_(self) -> str:
        return prediction_html(self)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a method says of N images: part name -> (N, C), fused probabilities (N, C), and best classes (N,)."""

    parts: dict[str, Array]
    probabilities: Array
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        return predictions_html(self)


def prediction_of(parts: dict[str, Array], fused: Array) -> Prediction:
    """A prediction that shares no array with whoever made it."""
    return Prediction({name: part.copy() for name, part in parts.items()}, fused, int(fused.argmax()))
