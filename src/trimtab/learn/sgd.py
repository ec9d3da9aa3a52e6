"""The optimizer and the schedule of CoOp and MaPLe, as their authors' training program has them."""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.engine.arrays import Array, Doubles, Floats


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each epoch: one warm-up epoch, then a cosine that begins at the full rate.

    The cosine starts only after the warm-up and has `epochs` as its length, so it never reaches its end, as released.
    """

    learning_rate: float
    epochs: int
    warmup_rate: float = 1e-5

    def rate(self, epoch: int) -> float:
        """The rate of an epoch, counted from 0."""
        if epoch == 0:
            return self.warmup_rate
        return self.learning_rate / 2 * (1 + math.cos(math.pi * (epoch - 1) / self.epochs))


class SGD:
    """Stochastic gradient descent with momentum; weight decay is added to the gradient (L2), as torch does."""

    def __init__(self, momentum: float = 0.9, weight_decay: float = 5e-4) -> None:
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocity: Doubles | None = None  # set it to continue where another has stopped

    def step(self, parameter: Array, gradient: Floats, rate: float) -> Array:
        """The parameter after one more step; the given one is left alone."""
        slope = np.asarray(gradient, np.float64) + self.weight_decay * parameter
        self.velocity = slope if self.velocity is None else self.momentum * self.velocity + slope
        with np.errstate(over="ignore"):  # who calls looks for infinity
            moved: Array = (parameter - rate * self.velocity).astype(np.float32)
        return moved
