"""What was just there (fusion/context.py), plainly: its equations, one image at a time."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Context:
    """What was usual, three means of what was believed, and which class a run of one class would be of."""

    def __init__(self, classes: int) -> None:
        self.said: list[Doubles] = [np.full(classes, 1 / classes)] * 20
        self.means = {length: np.full(classes, 1 / classes) for length in (2, 8, 32)}
        self.run = np.zeros(classes)  # sums to less than 1: the rest stands for no run
        self.shares = np.array([0.9, *(4 * [0.025])])

    def expected(self, known: float) -> Doubles:
        """(C,): how many times as much as usual each class is to be expected; what is usual is `known` so far."""
        usual, *recent = self._foretelling(known)
        lifts = [share * (row / usual - 1) for share, row in zip(self.shares[1:], recent, strict=True)]
        return np.asarray(1 + np.sum(lifts, axis=0))

    def learn(self, said: Doubles, known: float) -> None:
        """Take in what is said of the next image (C,)."""
        said, rows, seen = said / said.sum(), self._foretelling(known), len(self.said) - 20
        expected, ratio = self.expected(known), said / rows[0]
        by_mean = self._foretelling(1.0)
        foretold = self.shares * [row @ (said / by_mean[0]) for row in by_mean]
        moved = (foretold / foretold.sum() - self.shares) * max(1 / 50, 1 / (seen + 20))
        self.shares = np.maximum(self.shares + moved, 0.002)
        self.shares /= self.shares.sum()
        believed = said * expected / (said @ expected)
        for length, mean in self.means.items():
            mean += (believed - mean) / min(length, seen + 2)
        so_far, no_run = self.run * (1 + ratio) / 2, 1 - self.run.sum()
        self.run = so_far / (so_far.sum() + no_run) * 31 / 32 + rows[0] / 64
        self.said.append(said)

    def _foretelling(self, known: float) -> list[Doubles]:
        usual = known * np.mean(self.said, axis=0) + (1 - known) / len(self.run)
        return [usual, *self.means.values(), self.run + (1 - self.run.sum()) * usual]
