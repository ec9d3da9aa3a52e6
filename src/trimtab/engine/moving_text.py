"""Text prototypes that move along the stream, for DPE and for the released form of MCP++."""

import numpy as np

from trimtab.engine.arrays import Array, Arrays, Floats


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
        self.mean += (moved - self.mean) / np.float32(self.updates[0] + 1)
        self.lengths[...] = np.sqrt(np.einsum("cd,cd->c", self.mean, self.mean))
        np.divide(self.mean, self.lengths[:, None], out=self.units)
