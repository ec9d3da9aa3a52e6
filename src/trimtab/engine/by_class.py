"""ByClass: arrays of which only some classes have a row, read and written as if all had."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array


class ByClass:
    """Rows that are kept for some classes, indexed by class; a class without a row reads as zeros, and its anchor."""

    def __init__(self, row_of: NDArray[np.int32], rows: Array, anchors: Array | None = None) -> None:
        self._row_of, self._rows, self._anchors = row_of, rows, anchors  # row_of (C,): -1 for a class without a row
        self.shape = (len(row_of), *rows.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        label, *rest = key if isinstance(key, tuple) else (key,)
        self._rows[self._row_of[label]][tuple(rest)] = value

    def __getitem__(self, key: Any) -> Array:
        label, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(label, slice):
            label = range(self.shape[0])[label]
        if isinstance(label, int | np.integer):
            found: Array = self._row(int(label))[tuple(rest)]
            return found
        return np.stack([self._row(int(each))[tuple(rest)] for each in label])

    def _row(self, label: int) -> Array:
        place = self._row_of[label]
        if place >= 0:
            held: Array = self._rows[place]
            return held
        row: Array = np.zeros(self.shape[1:], np.float32)
        if self._anchors is not None:
            row[0] = self._anchors[label]
        return row
