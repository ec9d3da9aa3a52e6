"""How a prediction's parts become one: weights over probability vectors. # Eq. 5

Two kinds, never mixed in a table: `FixedWeights` needs nothing; `oracle_weights` searches the authors' grid on the TEST
LABELS, as the papers' headline figures do, and is named an oracle wherever its figure appears.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from trimtab.equations import Array
from trimtab.errors import TrimtabError
from trimtab.state import Arrays

# The authors' search grid for every weight but the first, which is fixed at 1.
ORACLE_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


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


@dataclass(frozen=True)
class OracleWeights:
    """The best weights for labels that no real stream has, and the accuracy they give."""

    weights: tuple[float, ...]
    accuracy: float


def oracle_weights(parts: Mapping[str, Array], labels: NDArray[np.integer]) -> OracleWeights:
    """Search the weights on the labels: the first part has weight 1, the others run over the 13-value grid.

    NEEDS LABELS. The first maximum wins, as in the released programs.
    """
    arrays = list(parts.values())
    if len(labels) != len(arrays[0]):
        raise TrimtabError(f"There are {len(labels)} labels for {len(arrays[0])} predictions; give one label each.")
    best = OracleWeights((), -1.0)
    for others in product(ORACLE_GRID, repeat=len(arrays) - 1):
        fused = arrays[0].copy()
        for weight, array in zip(others, arrays[1:], strict=True):
            fused += np.float32(weight) * array
        accuracy = float((fused.argmax(axis=1) == labels).mean())
        if accuracy > best.accuracy:
            best = OracleWeights((1.0, *others), accuracy)
    return best
