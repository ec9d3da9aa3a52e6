"""Weights searched on the TEST LABELS, as behind the papers' headline figures: an oracle, and named one everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.equations import Array
from trimtab.errors import TrimtabError

# The authors' search grid for every weight but the first, which is fixed at 1.
ORACLE_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


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
