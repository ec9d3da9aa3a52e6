"""The array types that everything speaks of, and rows of length one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]  # what the engine computes in
Doubles = NDArray[np.float64]  # what it adds up long streams in
Floats = NDArray[np.floating[Any]]  # either, where a function keeps the precision that it is given
Arrays = dict[str, NDArray[np.generic]]  # a state: its arrays by name


def unit_rows(rows: Floats) -> Array:
    """Every vector along the last axis divided by its length, as float32. No vector may be zero."""
    unit: Array = np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)
    return unit
