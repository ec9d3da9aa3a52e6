"""The bar that a stream is held to under an attack, how far below it one ends, and how much of that may be noise.

A stream shall keep `KEPT` of the gain that the method has without an attack or guard; where that is less than a point,
it shall fall no more than `BELOW` under zero-shot. Both are differences of top-1 on the same images in the same orders,
so the noise is of these paired differences: the orders are a draw, and so are the images, of which several orders may
share some. Both are counted by clusters: the variance by orders plus that by images, less that of single answers.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Doubles

KEPT, BELOW = 0.6, 0.5
LEAST_GAIN = 1.0  # points; of less, no share can be told

Right = NDArray[np.bool_]  # (orders, N): which answers are right


def wanted(zero_shot: Right, clean: Right) -> Doubles:
    """(orders, N): the bar in percent, image by image; `clean` is the method without an attack or guard."""
    text, method = 100 * zero_shot.astype(np.float64), 100 * clean.astype(np.float64)
    if method.mean() - text.mean() < LEAST_GAIN:
        return text - BELOW
    return (1 - KEPT) * text + KEPT * method


def standard_error(differences: Doubles, images: NDArray[np.int64]) -> float:
    """Of the mean of differences (orders, N), of images that have numbers (orders, N)."""
    left = differences - differences.mean()
    orders, size = len(left), left.size
    alone = (left**2).sum()
    by_image = (np.bincount(np.unique(images, return_inverse=True)[1].ravel(), left.ravel()) ** 2).sum()
    by_order = (left.sum(axis=1) ** 2).sum() * orders / (orders - 1) if orders > 1 else alone
    return float(np.sqrt(max(by_order + by_image - alone, alone)) / size)
