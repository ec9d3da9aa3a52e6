"""AdamW in NumPy: the optimizer of every method that tunes something for one image and forgets it."""

import numpy as np

from trimtab.engine.arrays import Array, Doubles, Floats

BETAS = (0.9, 0.999)  # torch's defaults, which every released program uses


class AdamW:
    """One parameter's optimizer, fresh: its first step has a closed form, the later ones follow the running moments.

    theta <- (1 - lr decay) theta - lr m / (sqrt(v) + eps), with both moments m and v corrected for their start at zero.
    """

    def __init__(self, learning_rate: float, *, eps: float = 1e-8, weight_decay: float = 0.01) -> None:
        self.learning_rate, self.eps, self.weight_decay = learning_rate, eps, weight_decay
        self._steps = 0
        self._mean: Doubles = np.zeros(0)
        self._square: Doubles = np.zeros(0)

    def step(self, parameter: Array, gradient: Floats) -> Array:
        """The parameter after one more step; the given one is left alone."""
        slope = np.asarray(gradient, np.float64)
        if self._steps == 0:  # the corrected moments are g and g^2, whatever the betas
            self._mean, self._square = (1 - BETAS[0]) * slope, (1 - BETAS[1]) * slope * slope
            direction = slope / (np.abs(slope) + self.eps)
        else:
            self._mean = BETAS[0] * self._mean + (1 - BETAS[0]) * slope
            self._square = BETAS[1] * self._square + (1 - BETAS[1]) * slope * slope
            mean = self._mean / (1 - BETAS[0] ** (self._steps + 1))
            square = self._square / (1 - BETAS[1] ** (self._steps + 1))
            direction = mean / (np.sqrt(square) + self.eps)
        self._steps += 1
        kept = (1 - self.learning_rate * self.weight_decay) * parameter.astype(np.float64)
        moved: Array = (kept - self.learning_rate * direction).astype(np.float32)
        return moved
