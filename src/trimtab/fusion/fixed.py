"""The same weights for every image, as in the paper: probabilities are summed. # Eq. 5"""

from collections.abc import Mapping, Sequence

import numpy as np

from trimtab.engine.equations import Array
from trimtab.engine.state import Arrays
from trimtab.errors import TrimtabError


class FixedWeights:
    """The same weights for every image: probabilities are summed, then made to sum to one."""

    def __init__(self, parts: Sequence[str], weights: Sequence[float]) -> None:
        if len(weights) != len(parts):
            raise TrimtabError(
                f"fusion has {len(weights)} weights but the prediction has {len(parts)} parts "
                f"({', '.join(parts)}); give one weight for each."
            )
        if not all(np.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise TrimtabError(f"fusion weights must be numbers of at least 0, not all 0; got {tuple(weights)}.")
        self.parts = tuple(parts)
        self.weights = np.asarray(weights, np.float32) / np.float32(sum(weights))

    def combine(self, parts: Mapping[str, Array]) -> Array:
        """(C,) or (N, C) probabilities of one image or of a stream."""
        total = parts[self.parts[0]] * self.weights[0]
        for name, weight in zip(self.parts[1:], self.weights[1:], strict=True):
            total += parts[name] * weight
        return total

    def observe(self, parts: Mapping[str, Array]) -> None:
        """Nothing is learned from what passes by."""

    def arrays(self) -> Arrays:
        """Nothing is kept."""
        return {}

    def report(self) -> dict[str, float]:
        """The share of each part."""
        return {name: float(weight) for name, weight in zip(self.parts, self.weights, strict=True)}
