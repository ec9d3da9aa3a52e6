"""How sure a product of parts should be of its answer, so that its probabilities mean something.

Weights without labels make the parts speak with equal force, which is good for the answer and says nothing about how
often it is right. Whoever knows how sure answers should be on average (`Block.sure`: the text at the scale that came
with the encoder; where halves of it are asked, engine/halves.py, these know more) gives this here: the product is
raised to a power, the same for all classes, that makes its mean confidence over the last images just that; of the first
image, its own. What is expected of an image that comes in a run (context.py) is no part of it: answers that meet it are
surer, and right more often. No label changes, and no label is used.

Parts that come weighed (Keel's memory) make the product louder, and what is expected would count for less in it. So a
second power is found in the same way: the one at which the product is as sure as without them, where they count fully.
"""

import numpy as np

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import confidence_of

WINDOW, WARM_UP = 200, 20.0  # images that the mean confidence speaks of; images' worth of caution at the start
# A step in log power per difference in confidence: near Newton's. What is nearly sure hardly gets surer, so there the
# step is longer; what is wanted is taken to be no surer than SUREST for that.
SLOPE, SURE_SLOPE, SUREST = 3.0, 0.45, 0.98
MOST = 3.0  # the log power's limit, up and down
HALVINGS = 16  # of the range in which the first is looked for

# Places in the array of figures: of log powers that make the product as sure as it should be, and as without what comes
# weighed.
AS_SURE, AS_WITHOUT = range(2)


def new_loudness() -> Doubles:
    """Nothing known: the product as it is."""
    return np.zeros(2)


@njit(nogil=True)
def first_log_power(product: Array, sure: float) -> float:
    """The log power that makes the best class of the first product (C,), logits, as probable as it should be."""
    low, high = -MOST, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if confidence_of(product, np.float32(np.exp(middle))) < sure:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@njit(nogil=True)
def learn_loudness(figures: Doubles, place: int, confidence: float, wanted: float, seen: int) -> None:
    """Take in a product's confidence at a power, of which the mean should be as wanted; NaN: nobody knows."""
    if np.isnan(wanted):
        return
    slope = SLOPE
    if place == AS_SURE and wanted > 0.5:
        kept = min(wanted, SUREST)
        slope = max(slope, SURE_SLOPE / (kept * (1 - kept)))
    moved = figures[place] + slope * (wanted - confidence) / (min(seen, WINDOW) + WARM_UP)
    figures[place] = min(max(moved, -MOST), MOST)
