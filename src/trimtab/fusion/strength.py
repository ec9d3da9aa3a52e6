"""How strongly visual prototypes should speak, found from the stream instead of set per data set.

MCP adds alpha exp(-beta (1 - <f, v_c>)) to the text's logits (Eq. 4, left). Which alpha and beta are right depends on
the encoder: on its logit scale and on how wide its cone of image features is; the authors set both for each data set.
Here the prototypes' cosines speak linearly, k (<f, v_c> - m), with three figures that a stream shows without labels:

* m, the usual cosine of an image with the prototypes of other classes; a class without items is taken to be there;
* k makes the cosines spread twice as far as the text's logits, among the classes that the text finds plausible;
* and k shrinks, down to 0, when over the last images the prototypes' favorite class is less probable to the text than
  a class drawn from the text itself: then the bank does not follow the stream.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.block import Image
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE
from trimtab.fusion.loops import WARM_UP, WINDOW, mean_at_highest, trust

FORCE = 2.0  # spread of the prototypes' logits over that of the text's

# Places in the array of figures.
SEEN, COSINES, COSINE_WEIGHT, TEXT_SPREAD, COSINE_SPREAD, AGREEMENT, SELF_AGREEMENT = range(7)


class PrototypeStrength:
    """Seven running figures of a stream. `learn` is called once per image, `support` reads."""

    def __init__(self) -> None:
        self.figures = np.zeros(7)
        # A first guess of both spreads, which counts as one image: most encoders are near.
        self.figures[TEXT_SPREAD], self.figures[COSINE_SPREAD] = 1.0, 0.01

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"figures": self.figures}

    def learn(self, image: Image, cosines: Array, holds_items: NDArray[np.bool_]) -> None:
        """Take in an image's cosines (C,) with the visual prototypes of the classes that have one."""
        learn_strength(self.figures, image.probabilities, image.logits, cosines, holds_items)

    def support(self, cosines: Array, holds_items: NDArray[np.bool_]) -> Array:
        """(C,) or (V, C): what to add to the text's logits."""
        usual = np.float32(usual_of(self.figures))
        support: Array = np.float32(self.slope(cosines.shape[-1])) * (cosines - usual) * holds_items
        return support

    def slope(self, classes: int) -> float:
        """Logits per cosine."""
        return float(slope_of(self.figures, classes))

    def walk(self, text: Array, logits: Array, cosines: Array, since: NDArray[np.int64]) -> Array:
        """(B, C), over the cosines: for each image of a block in turn `learn`, then `support`.

        `since` (C,) is the block's first image that finds an item of the class; B: none does.
        """
        _walk(self.figures, text, logits, cosines, since)
        return cosines


@njit(nogil=True)
def usual_of(figures: NDArray[np.float64]) -> float:
    """m: the usual cosine of an image with the prototypes of other classes."""
    return figures[COSINES] / max(figures[COSINE_WEIGHT], 1e-9)


@njit(nogil=True)
def slope_of(figures: NDArray[np.float64], classes: int) -> float:
    """k: logits per cosine."""
    warm = figures[SEEN] / (figures[SEEN] + WARM_UP)
    matched = np.sqrt(figures[TEXT_SPREAD] / figures[COSINE_SPREAD])
    return FORCE * warm * trust(figures[AGREEMENT:], classes) * matched


@njit(nogil=True)
def _walk(
    figures: NDArray[np.float64],
    text: Array,
    logits: Array,
    cosines: Array,
    since: NDArray[np.int64],
) -> None:
    images, classes = text.shape
    for row in range(images):
        holds_items = since <= row
        learn_strength(figures, text[row], logits[row], cosines[row], holds_items)
        slope, usual = np.float32(slope_of(figures, classes)), np.float32(usual_of(figures))
        for c in range(classes):
            cosines[row, c] = slope * (cosines[row, c] - usual) if holds_items[c] else np.float32(0)


@njit(fastmath=VECTORIZE, nogil=True)
def learn_strength(
    figures: NDArray[np.float64], text: Array, logits: Array, cosines: Array, holds_items: NDArray[np.bool_]
) -> None:
    """Take in one image, (C,) each: the text's probabilities and logits, the cosines with the prototypes."""
    classes = len(text)
    total, weight = 0.0, 0.0
    for c in range(classes):  # factors instead of branches, which would keep the loops scalar
        other = (np.float32(1) - text[c]) * np.float32(holds_items[c])
        total += other * cosines[c]
        weight += other
    figures[COSINES] += total
    figures[COSINE_WEIGHT] += weight
    usual = np.float32(usual_of(figures))
    deviations = np.empty(classes, np.float32)
    for c in range(classes):
        deviations[c] = (cosines[c] - usual) * np.float32(holds_items[c])
    logit, logit_square, cosine, cosine_square, itself = 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(classes):
        logit += text[c] * logits[c]
        logit_square += text[c] * logits[c] * logits[c]
        cosine += text[c] * deviations[c]
        cosine_square += text[c] * deviations[c] * deviations[c]
        itself += text[c] * text[c]
    figures[SEEN] += 1
    figures[TEXT_SPREAD] += (max(logit_square - logit * logit, 0.0) - figures[TEXT_SPREAD]) / (figures[SEEN] + 1)
    figures[COSINE_SPREAD] += (max(cosine_square - cosine * cosine, 0.0) - figures[COSINE_SPREAD]) / (figures[SEEN] + 1)
    recent = max(1 / figures[SEEN], WINDOW)
    figures[AGREEMENT] += (mean_at_highest(deviations, text) - figures[AGREEMENT]) * recent
    figures[SELF_AGREEMENT] += (itself - figures[SELF_AGREEMENT]) * recent
