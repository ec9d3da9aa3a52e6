"""What was just there (fusion/context.py), plainly: its equations, one image at a time."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Context:
    """What was usual, and three means of what was believed."""

    def __init__(self, classes: int) -> None:
        self.said, self.seen = np.full(classes, 20 / classes), 0
        self.means = {length: np.full(classes, 1 / classes) for length in (2, 8, 32)}
        self.shares = self.first_shares()

    @staticmethod
    def first_shares() -> Doubles:
        """Before anything is known."""
        return np.array([0.9, *(3 * [0.1 / 3])])

    def expected(self, known: float) -> Doubles:
        """(C,): how many times as much as usual each class is to be expected; what is usual is `known` so far."""
        usual, *recent = self._foretelling(known)
        lifts = [share * (row / usual - 1) for share, row in zip(self.shares[1:], recent, strict=True)]
        return np.asarray(1 + np.sum(lifts, axis=0))

    def learn(self, said: Doubles, known: float) -> None:
        """Take in what is said of the next image (C,)."""
        expected = self.expected(known)
        if self.said.sum() >= 10_020:
            self.said, self.shares = self.said / 2, self.first_shares()
            self.means = {length: self.said / self.said.sum() for length in self.means}
        said, rows, seen = said / said.sum(), self._foretelling(1.0), self.seen
        foretold = self.shares * [row @ (said / rows[0]) for row in rows]
        moved = (foretold / foretold.sum() - self.shares) * max(1 / 100, 1 / (seen + 20))
        self.shares = np.maximum(self.shares + moved, 0.002)
        self.shares /= self.shares.sum()
        believed = said * expected / (said @ expected)
        for length, mean in self.means.items():
            mean += (believed - mean) / min(length, seen + 2)
        self.said, self.seen = self.said + said, seen + 1

    def _foretelling(self, known: float) -> list[Doubles]:
        usual = known * self.said / self.said.sum() + (1 - known) / len(self.said)
        return [usual, *self.means.values()]
