"""How sharply the text speaks, found from the stream: a logit scale that is nobody's guess.

A text prototype's cosine becomes a logit by a factor that comes with the encoder, is often unknown, and is wrong for
words unlike those it was trained with. Here it is the factor at which the text's mean confidence over the last images,
the probability of its best class, is CONFIDENCE, or a third of the way from chance to certainty where classes are so
few that this is more. So the scale that a task states changes no answer; no label is used.
It is still the only hint at how sure of its answers a classifier should be, so the confidence that it gives is kept.
Names that speak far louder than others are put on one level first (leveling.py).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import LEARNED, Block, Image
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import VECTORIZE, exp, highest_of
from trimtab.engine.leveling import TextLevel, unlevel_row
from trimtab.engine.state import OwnArrays

CONFIDENCE = 0.4
BEYOND_CHANCE = 1 / 3  # of the way to certainty: more than CONFIDENCE below ten classes; of two, one has half by chance
WINDOW = 200.0  # images that the mean confidence speaks of
WARM_UP = 20.0  # images' worth of caution at the start
FIRST_SPREAD = 2.0  # deviation of the first image's logits over the classes: a first guess
SLOPE = 3.0  # a step in log scale per difference in confidence: near Newton's

SEEN, LOG_SCALE, STATED = range(3)  # places in the array of figures


class TextTemper(OwnArrays):
    """Three running figures, and the names' level. A block asks for its scales when it is opened; `take_in` makes one
    image count.
    """

    def __init__(self, stated_scale: float, classes: int, *, level_names: bool = True) -> None:
        self.stated_scale, self._level_names = float(stated_scale), level_names
        self.figures = np.zeros(3)
        self.level = TextLevel(classes)
        self._code: Callable[..., None] | None = None  # of the loop that finds scales

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"figures": self.figures, **{f"level_{name}": array for name, array in self.level.arrays().items()}}

    def open(self, block: Block) -> None:
        """Let the block's logits be tempered."""
        block.temper = self

    before_judging = open

    def scales(self, cosines: Array, counted: NDArray[np.bool_] | None = None) -> tuple[Array, Doubles]:
        """(B,): the logit scale of each image, from those before it that are `counted`; (B, 3): the figures after each.

        Text that is mixed into images makes the text sure of them: where a guard refuses them, they must not count.
        """
        scales, after = np.empty(len(cosines), np.float32), np.empty((len(cosines), 3))
        counted, level = _marks(counted, len(cosines)), self.level
        names = level.is_even, level.gains, level.offsets
        given = np.ascontiguousarray(cosines), counted, self.figures, self.stated_scale, *names, scales, after
        self._code = self._code or code_for(_scales, *given)
        self._code(*given)
        return scales, after

    def take_in(self, image: Image) -> None:
        """Make the image count for those that come, unless its block says that it does not."""
        self.figures[:] = image.block.tempered[image.row]
        self._level(image.block, image.row, image.row + 1)

    def count_block(self, block: Block) -> None:
        """Make all images of a block count, but for those that the block says do not."""
        self.figures[:] = block.tempered[-1]
        self._level(block, 0, len(block))

    def pass_by(self, image: Image) -> None:
        """An image that is not learned from: as in a block."""
        self.take_in(image)

    def take_stock(self) -> None:
        """Find the names' level anew."""
        self.level.take_stock()

    def report(self) -> dict[str, float]:
        """How far names are put on one level, if they may be: 0, as they are, to `leveling.MOST`."""
        return {"level": float(self.level.share[0])} if self._level_names else {}

    def _level(self, block: Block, first: int, last: int) -> None:
        """Let the images first..last of a block count for the names' level."""
        if self._level_names:
            self.level.take_in(block, first, last, _marks(block.counted, len(block)))


def _marks(counted: NDArray[np.bool_] | None, images: int) -> NDArray[np.bool_]:
    """(B,): the images that count; None: all do."""
    if counted is not None:
        return counted
    return LEARNED if images == 1 else np.ones(images, np.bool_)


@njit(nogil=True)
def next_log_scale(log_scale: float, seen: float, confidence: float, classes: int) -> float:
    """The log scale after another image, whose best of so many classes had this probability."""
    wanted = max(CONFIDENCE, 1 / classes + (1 - 1 / classes) * BEYOND_CHANCE)
    return log_scale + SLOPE * (wanted - confidence) / (min(seen, WINDOW) + WARM_UP)


@njit(fastmath=VECTORIZE, nogil=True)
def _scales(
    cosines: Array,
    counted: NDArray[np.bool_],
    figures: Doubles,
    stated_scale: float,
    even: bool,
    gains: Array,
    offsets: Array,
    scales: Array,
    after: Doubles,
) -> None:
    given = np.empty(0 if even else cosines.shape[1], np.float32)
    seen, log_scale, stated = figures[SEEN], figures[LOG_SCALE], figures[STATED]
    as_stated_scale = np.float32(stated_scale)  # as the cosines, so that the loop stays in single precision
    for row in range(len(cosines)):
        image = cosines[row]
        if seen == 0:
            log_scale = np.log(FIRST_SPREAD / max(image.std(), 1e-6))
        scales[row] = np.exp(log_scale)
        if counted[row]:
            highest, total, as_stated = highest_of(image), np.float32(0), np.float32(0)
            for c in range(len(image)):
                total += exp(scales[row] * (image[c] - highest))
                as_stated += exp(as_stated_scale * (image[c] - highest))
            if not even:  # the stated scale is that of names as they are
                unlevel_row(image, np.float32(1), gains, offsets, given)
                highest, as_stated = highest_of(given), np.float32(0)
                for c in range(len(image)):
                    as_stated += exp(as_stated_scale * (given[c] - highest))
            log_scale = next_log_scale(log_scale, seen, float(1 / total), len(image))
            stated += (1 / as_stated - stated) / (min(seen, WINDOW) + 1)
            seen += 1
        after[row, SEEN], after[row, LOG_SCALE], after[row, STATED] = seen, log_scale, stated
