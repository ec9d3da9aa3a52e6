"""Mean and variance of tokens over many images, a batch at a time (Chan, Golub, LeVeque), in float64."""

import numpy as np
from numpy.typing import NDArray


class RunningStatistics:
    """Mean and sum of squared deviations so far. One pass is enough, and batches of any size give the same."""

    def __init__(self) -> None:
        self.images = 0
        self.mean: NDArray[np.float64] = np.zeros(())
        self.squares: NDArray[np.float64] = np.zeros(())

    def add(self, tokens: NDArray[np.float32]) -> None:
        """Take in (B, ...) tokens of B more images."""
        batch = tokens.astype(np.float64)
        mean = batch.mean(axis=0)
        squares = ((batch - mean) ** 2).sum(axis=0)
        before, count = self.images, len(batch)
        apart = mean - self.mean
        self.images = before + count
        self.mean = self.mean + apart * (count / self.images)
        self.squares = self.squares + squares + apart**2 * (before * count / self.images)

    @property
    def mean32(self) -> NDArray[np.float32]:
        """The mean."""
        return self.mean.astype(np.float32)

    @property
    def variance32(self) -> NDArray[np.float32]:
        """The population variance."""
        return (self.squares / max(1, self.images)).astype(np.float32)
