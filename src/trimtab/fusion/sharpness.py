"""How sharply a strong text should speak in the product of the parts, found from the stream without labels.

A tempered text is sure of 0.4 on average, which leaves room for what the caches learn. That is too modest for a text
that is nearly always right: there the caches can only spoil. Two signs of such a text need neither labels nor scale:

* margin: how far its best class lies before the second, over the spread of all, compared with Gaussian chance;
* agreement: how often the other parts name the class that the text names.

Where both are high the text's logits are multiplied by a factor that makes its mean confidence SURE.
"""

import math
from functools import cache

import numpy as np

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.clarity import margin
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of, confidence_of, highest_of, ramp

MARGINS = (1.45, 1.75)  # from no sign of a strong text to a clear one
AGREEMENTS = (0.75, 0.85)
SURE = 0.85  # the mean confidence of a text that is strong by both signs
WINDOW, WARM_UP = 200, 20.0  # images that the figures speak of; images' worth of caution at the start
SLOPE = 3.0  # a step in log factor per difference in confidence: near Newton's
MOST = 2.5  # the log factor's limit

# Places in the array of figures.
LOG_FACTOR, AGREEMENT, MARGIN, CONFIDENCE = range(4)


class TextSharpness:
    """Four running figures of a stream."""

    def __init__(self, classes: int) -> None:
        self.figures = np.array([0.0, 0.5, 1.0, 0.0])
        self.usual_margin = _gaussian_margin(classes)

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"sharpness": self.figures}

    @property
    def factor(self) -> float:
        """What the text's logits are multiplied by, at least 1."""
        return math.exp(self.figures[LOG_FACTOR])


@cache
def _gaussian_margin(classes: int) -> float:
    """The mean distance of the highest of so many Gaussian numbers from the second, over their deviation."""
    if classes < 2:
        return 1.0
    points = np.linspace(-6, 9, 6001)
    below = np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points])
    between = np.trapezoid(classes * below ** (classes - 1) * (1 - below), points)
    return float(between) / math.sqrt(1 - 1 / classes)


@njit(fastmath=VECTORIZE, nogil=True)
def learn_sharpness(figures: Doubles, said: Array, logs: Array, seen: int, usual_margin: float) -> None:
    """Take in an image: what the text said (C,), and the parts' logits (P, C), the text's first."""
    parts = len(logs)
    text = logs[0]
    named = best_of(text)
    alike = 0.0
    for part in range(1, parts):
        alike += 1.0 if best_of(logs[part]) == named else 0.0
    factor = np.float32(np.exp(figures[LOG_FACTOR]))
    plain = sharper = float(highest_of(said))
    if factor != 1:
        sharper = confidence_of(text, factor)
    recent = 1.0 / (min(seen, WINDOW) + WARM_UP)
    figures[AGREEMENT] += (alike / (parts - 1) - figures[AGREEMENT]) * recent
    figures[MARGIN] += (margin(text) / usual_margin - figures[MARGIN]) * recent
    figures[CONFIDENCE] += (plain - figures[CONFIDENCE]) * recent
    strong = ramp(figures[MARGIN], MARGINS[0], MARGINS[1]) * ramp(figures[AGREEMENT], AGREEMENTS[0], AGREEMENTS[1])
    wanted = figures[CONFIDENCE] + strong * (SURE - figures[CONFIDENCE])
    moved = figures[LOG_FACTOR] + SLOPE * (wanted - sharper) * recent
    figures[LOG_FACTOR] = min(max(moved, 0.0), MOST)
