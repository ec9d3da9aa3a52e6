"""Text prototypes that move along the stream, for DPE and for the released form of MCP++."""

import numpy as np

from trimtab.engine.arrays import Array, Arrays, Floats
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE


class RunningText:
    """The running mean of the text prototypes that confident images have moved; the text at the start counts once."""

    def __init__(self, text: Array) -> None:
        self.mean: Array = text.copy()
        self.updates = np.zeros(1, np.int64)
        self.lengths: Array = np.ones(len(text), np.float32)
        self.units: Array = text.copy()

    def arrays(self) -> Arrays:
        """What is saved."""
        return {"mean": self.mean, "updates": self.updates, "lengths": self.lengths, "units": self.units}

    def take_in(self, moved: Floats) -> None:
        """One more image has moved the text."""
        self.updates += 1
        _take_in(self.mean, moved, np.float32(1 / (self.updates[0] + 1)), self.lengths, self.units)


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _take_in(mean: Array, moved: Floats, share: np.float32, lengths: Array, units: Array) -> None:
    """Every row drawn to where it was moved, and made unit, in one pass."""
    for c in range(len(mean)):
        row, target, unit = mean[c], moved[c], units[c]
        squared = np.float32(0)
        for k in range(len(row)):
            row[k] += (target[k] - row[k]) * share
        for k in range(len(row)):  # a sum in a loop that writes nothing: see `kernels.softmax_in_place`
            squared += row[k] * row[k]
        lengths[c] = np.sqrt(squared)
        for k in range(len(row)):
            unit[k] = row[k] / lengths[c]
