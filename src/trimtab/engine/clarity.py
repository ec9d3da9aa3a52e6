"""Whether the text speaks as clearly as it used to: only then do caches change what they hold.

A cache that keeps the surest images of all time ends with extremes: over a hundred thousand images of one kind it grows
worse. So items should give way. But where a stream drifts to images that the text hardly understands, what came before
is better than what comes. The text's clearness tells the two apart without labels and whatever its scale: how far its
best class lies before the second, over the spread of all. Items age, and full caches take new ones, while the mean of
the last images is not below that of thirty times as many (docs/long-streams.md).
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.compiled import njit

RECENT = 1000  # images that "now" speaks of
LONG = 30_000  # and "as it used to be": a change that stays is accepted in the end

SEEN, NOW, USUAL = range(3)  # places in the array of figures


class Clarity:
    """Three running figures."""

    def __init__(self) -> None:
        self.figures = np.zeros(3)

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"figures": self.figures}

    def take_in(self, logits: Array) -> NDArray[np.bool_]:
        """(B,): whether the text is clear, at images of these text logits (B, C), one after the other."""
        clear_now = np.empty(len(logits), np.bool_)
        _take_in(np.ascontiguousarray(logits), self.figures, clear_now)
        return clear_now


@njit(nogil=True)
def margin(logits: Array) -> float:
    """How far the best of (C,) logits lies before the second, over the deviation of all; 1 where there is one alone."""
    if len(logits) < 2:
        return 1.0
    best, second, total, square = np.float32(-np.inf), np.float32(-np.inf), 0.0, 0.0
    for c in range(len(logits)):
        value = logits[c]
        total += value
        square += value * value
        if value > best:
            best, second = value, best
        elif value > second:
            second = value
    mean = total / len(logits)
    return (best - second) / np.sqrt(max(square / len(logits) - mean * mean, 1e-12))


@njit(nogil=True)
def _take_in(logits: Array, figures: Doubles, clear_now: NDArray[np.bool_]) -> None:
    for row in range(len(logits)):
        clear = margin(logits[row])
        figures[SEEN] += 1
        figures[NOW] += (clear - figures[NOW]) / min(figures[SEEN], RECENT)
        figures[USUAL] += (clear - figures[USUAL]) / min(figures[SEEN], LONG)
        clear_now[row] = figures[NOW] >= figures[USUAL]
