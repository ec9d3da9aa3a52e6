"""What an image's cosines with the text say of it: five figures, by which it is judged and called unknown."""

import numpy as np

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of
from trimtab.fusion.loops import total_of

# Places in the figures of an image, and of the running medians.
HIGHEST, MEAN, SPREAD, NEARNESS, ALONE = range(5)
COMPARED = (HIGHEST, MEAN, ALONE)  # with the medians; the record holds these
DEVIATION = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations


def figures_of(block: Block) -> Doubles:
    """(B, 5): the highest text cosine of each image's plain view, their mean over the classes, and their spread.

    NEARNESS and ALONE are known only among other images.
    """
    figures = np.zeros((len(block), 5))
    for row, cosines in enumerate(block.cosines):
        write_figures(cosines[0], figures[row])
    return figures


@njit(fastmath=VECTORIZE, nogil=True)
def write_figures(cosines: Array, out: Doubles) -> int:
    """Write what (C,) cosines with the text say; which of them is the highest."""
    classes, best = len(cosines), best_of(cosines)
    mean, square = total_of(cosines) / np.float32(classes), np.float32(0)
    for c in range(classes):
        square += (cosines[c] - mean) * (cosines[c] - mean)
    out[HIGHEST], out[MEAN] = cosines[best], mean
    out[SPREAD], out[NEARNESS], out[ALONE] = np.sqrt(square / np.float32(classes)), 0.0, 0.0
    return best
