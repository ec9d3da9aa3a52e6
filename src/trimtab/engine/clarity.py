"""Whether the text speaks as clearly as it used to: only then do caches change what they hold.

A cache that keeps the surest images of all time ends with extremes: over a hundred thousand images of one kind it grows
worse. So items should give way. But where a stream drifts to images that the text hardly understands, what came before
is better than what comes. The text's clearness tells the two apart without labels and whatever its scale: how far its
best class lies before the second, over the spread of all. Items age, and full caches take new ones, while the mean of
the last images is not below that of thirty times as many (docs/long-streams.md).
"""

import numpy as np

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import STRETCH, VECTORIZE, best_of, highest_of

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

    def take_in(self, logits: Array) -> bool:
        """Whether the text is clear, at an image of these text logits (C,), which counts from now on."""
        return bool(is_clear(logits, self.figures))


@njit(fastmath=VECTORIZE, nogil=True)
def margin(logits: Array) -> float:
    """How far the best of (C,) logits lies before the second, over the deviation of all; 1 where there is one alone."""
    if len(logits) < 2:
        return 1.0
    highest, second, first = np.float32(-np.inf), np.float32(-np.inf), 0
    total, square = 0.0, 0.0
    for start in range(0, len(logits), STRETCH):
        some = logits[start : start + STRETCH]
        here = highest_of(some)
        highest, second, first = (here, highest, start) if here > highest else (highest, max(second, here), first)
        sum_here, square_here = np.float32(0), np.float32(0)
        for c in range(len(some)):
            sum_here += some[c]
            square_here += some[c] * some[c]
        total += float(sum_here)
        square += float(square_here)
    best = first + best_of(logits[first : first + STRETCH])
    for others in (logits[first:best], logits[best + 1 : first + STRETCH]):
        if len(others) > 0:
            second = max(second, highest_of(others))
    mean = total / len(logits)
    return (highest - second) / np.sqrt(max(square / len(logits) - mean * mean, 1e-12))


@njit(nogil=True)
def is_clear(logits: Array, figures: Doubles) -> bool:
    """Whether the text is clear, at an image of these text logits (C,), which counts from now on."""
    clear = margin(logits)
    figures[SEEN] += 1
    figures[NOW] += (clear - figures[NOW]) / min(figures[SEEN], RECENT)
    figures[USUAL] += (clear - figures[USUAL]) / min(figures[SEEN], LONG)
    return bool(figures[NOW] >= figures[USUAL])
