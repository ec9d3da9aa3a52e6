"""The array types that everything speaks of, where arrays begin, and rows of length one."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]  # what the engine computes in
Doubles = NDArray[np.float64]  # what it adds up long streams in
Floats = NDArray[np.floating[Any]]  # either, where a function keeps the precision that it is given
Arrays = dict[str, NDArray[np.generic]]  # a state: its arrays by name


def aligned_zeros(shape: tuple[int, ...]) -> Array:
    """Zeros that begin where a line of the processor's cache does: rows of 16 numbers or more never lie across two."""
    line, size = 64, 4 * math.prod(shape)
    room = np.zeros(size + line, np.uint8)
    first = -room.ctypes.data % line
    zeros: Array = room[first : first + size].view(np.float32).reshape(shape)
    return zeros


def unit_rows(rows: Floats) -> Array:
    """Every vector along the last axis divided by its length, as float32. No vector may be zero."""
    unit: Array = np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)
    return unit
