"""Admission: what a stream may learn from, decided from an image's features and the text alone.

An image is judged before the method sees it, so one rule serves every method, and a block is judged at once:

* a near-duplicate of one of the last images that were learned is not learned again: a burst, a retry, a flood;
* an image that is about as close to a text as it is to other images is not learned. Encoders of two modalities keep
  texts and images in two cones; what makes a method sure of a wrong class is text that was mixed into an image, and
  that leaves the images' cone. This needs no statistics, so it holds from the second image on. An encoder that keeps no
  such gap is recognized by all of its images being so for a long time; then the rule is silent;
* an image that is far closer to the text than the others are is not learned: its highest cosine with any text, or its
  mean cosine with all of them, is compared with the median of the last images, in median deviations.

The statistics are of all images that are no duplicates, learned or not, so that a stream that has changed is followed.
A deviation is never taken to be less than a share of the spread that one image's text cosines have over the classes:
that needs no second image, so equal images cannot make the guard blind, and no scale has to be given.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of
from trimtab.engine.products import row_products
from trimtab.guard.rules import Guard

HELD = 128  # images that others are compared with: the last that were no duplicates, learned or not
WINDOW = 128  # images that the medians speak of
RENEWED = 16  # images between two computations of the medians
ORIGINS = 256  # images learned whose sources are counted for a quota
RECORD = 2048  # images learned whose figures are kept, to be judged again later
NO_GAP = 512  # images in a row over which the median image was too close to a text: the encoder knows no gap
DEVIATION = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations

# Places in the figures of an image, and of the running medians.
HIGHEST, MEAN, SPREAD, NEARNESS = range(4)
# Places in the array of counts.
JUDGED, LEARNED, GAPLESS = range(3)
# Places in the details of a verdict.
NEAREST, TO_TEXT, BEYOND = range(3)
NO_SOURCE = -1


class Verdict(IntEnum):
    """Why an image was learned from or not."""

    LEARNED = 0
    DUPLICATE = 1  # nearly one that was learned before
    STRANGE = 2  # far closer to the text than the stream's images are, or nearly as close to a text as to images
    QUOTA = 3  # its source has sent too many
    UNKNOWN = 4  # it shows none of the classes


# As compiled code knows them.
TO_LEARN, DUPLICATE, STRANGE, QUOTA = (
    int(verdict) for verdict in (Verdict.LEARNED, Verdict.DUPLICATE, Verdict.STRANGE, Verdict.QUOTA)
)


class Admission:
    """Running figures of a stream, and the last images learned. All of it is arrays, saved with the state."""

    def __init__(self, dim: int, guard: Guard) -> None:
        self._strange, self._floor = guard.strange, guard.floor
        self._limits = (guard.duplicates, guard.gap, guard.strange, guard.floor, guard.quota)
        self.held: Array = np.zeros((HELD, dim), np.float32)
        self.window: Doubles = np.zeros((WINDOW, 4))  # HIGHEST, MEAN, SPREAD, NEARNESS of the last images
        self.medians: Doubles = np.zeros((2, 4))  # of the window: medians, and median absolute deviations
        self.record: Doubles = np.zeros((RECORD, 2))  # HIGHEST, MEAN of the last images learned
        self.origins = np.full(ORIGINS, NO_SOURCE, np.int64)  # the sources of the last images learned
        self.counts = np.zeros(3, np.int64)
        self.places = self.nearest = np.zeros(0, np.int64)  # of the images judged last

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("held", "window", "medians", "record", "origins", "counts")
        return {name: getattr(self, name) for name in names}

    def judge(self, block: Block, figures: Doubles, sources: NDArray[np.int64], verdicts: NDArray[np.int8]) -> Doubles:
        """Judge a block's images, each by those before it; `verdicts` (B,) holds some already, and gets the rest.

        Returns (B, 3) what it was judged by: the cosine with the nearest image, the nearness to its best text over that
        to images, and the deviations above the median. `places` says where each image went in `held`, `nearest` which
        of those before it was nearest; -1: none.
        """
        plain = block.plain
        among = block.among if block.queries is plain else plain @ plain.T
        if len(block) == 1:
            near: Array = np.empty((1, len(self.held)), np.float32)
            row_products(self.held, plain[0], near[0])
        else:
            near = plain @ self.held.T
        details = np.zeros((len(plain), 3))
        self.places, self.nearest = np.full((2, len(plain)), -1, np.int64)
        _judge(
            plain,
            figures,
            near,
            among,
            sources,
            self._limits,
            self.held,
            self.window,
            self.medians,
            self.record,
            self.origins,
            self.counts,
            verdicts,
            details,
            self.places,
            self.nearest,
        )
        return details

    def learned_strangely(self) -> float:
        """The share of the images on record, all learned, that would not be learned now."""
        known = min(int(self.counts[LEARNED]), RECORD)
        if known == 0 or self._strange == 0 or self.counts[JUDGED] < RENEWED:
            return 0.0
        return _share_beyond(self.record[:known], self.medians, self._strange, self._floor)

    def forget_record(self) -> None:
        """What was learned is no longer there: judge only what is learned from now on."""
        self.record[:] = 0
        self.origins[:] = NO_SOURCE
        self.counts[LEARNED] = 0


def figures_of(block: Block) -> Doubles:
    """(B, 4): the highest text cosine of each image's plain view, their mean over the classes, and their spread.

    The last, NEARNESS, is found as the images held change.
    """
    figures = np.zeros((len(block), 4))
    _figures(block.view_logits, block.logit_scales, figures)
    return figures


@njit(fastmath=VECTORIZE, nogil=True)
def _figures(logits: Array, scales: Array, out: Doubles) -> None:
    classes = logits.shape[2]
    for image in range(len(logits)):
        row = logits[image, 0]
        highest, total, square = row[0], np.float32(0), np.float32(0)
        for c in range(classes):
            highest = max(highest, row[c])
            total += row[c]
        mean = total / np.float32(classes)
        for c in range(classes):
            square += (row[c] - mean) * (row[c] - mean)
        out[image, HIGHEST], out[image, MEAN] = highest / scales[image], mean / scales[image]
        out[image, SPREAD] = np.sqrt(square / np.float32(classes)) / scales[image]


@njit(nogil=True)
def _share_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> float:
    """The share of images whose figures lie too many deviations above the medians."""
    least, beyond = floor * medians[0, SPREAD], 0
    for image in range(len(figures)):
        for k in range(2):
            deviation = max(DEVIATION * medians[1, k], least)
            if figures[image, k] - medians[0, k] > strange * deviation:
                beyond += 1
                break
    return beyond / len(figures)


@njit(fastmath=VECTORIZE, nogil=True)
def _judge(
    plain: Array,
    figures: Doubles,
    near: Array,
    among: Array,
    sources: NDArray[np.int64],
    limits: tuple[float, float, float, float, float],
    held: Array,
    window: Doubles,
    medians: Doubles,
    record: Doubles,
    origins: NDArray[np.int64],
    counts: NDArray[np.int64],
    verdicts: NDArray[np.int8],
    details: Doubles,
    places: NDArray[np.int64],
    neighbors: NDArray[np.int64],
) -> None:
    duplicates, gap, strange, floor, quota = limits
    for image in range(len(plain)):
        if verdicts[image] != TO_LEARN:
            continue
        kept = min(counts[JUDGED], len(held))
        nearest, usual = np.float32(-1), np.float32(0)
        if kept > 0:
            cosines = near[image, :kept]
            neighbors[image] = best_of(cosines)
            nearest = cosines[neighbors[image]]
            for row in range(kept):
                usual += cosines[row]
            usual /= kept
        details[image, NEAREST] = nearest
        distance = max(1 - usual, (1 - figures[image, HIGHEST]) / 4)  # where all are equal, the text is a yardstick
        if kept > 0 and 1 - nearest < duplicates * distance:
            verdicts[image] = DUPLICATE
            continue
        figures[image, NEARNESS] = figures[image, HIGHEST] / max(usual, 1e-6) if kept > 0 else 0.0
        details[image, TO_TEXT] = figures[image, NEARNESS]
        if gap > 0 and counts[GAPLESS] < NO_GAP and figures[image, NEARNESS] > gap:
            verdicts[image] = STRANGE
        if counts[JUDGED] >= RENEWED and strange > 0:
            for k in range(2):
                deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
                beyond = (figures[image, k] - medians[0, k]) / max(deviation, 1e-9)
                details[image, BEYOND] = max(details[image, BEYOND], beyond)
                if beyond > strange:
                    verdicts[image] = STRANGE
        named = quota > 0 and verdicts[image] == TO_LEARN and sources[image] != NO_SOURCE
        if named and (origins == sources[image]).sum() >= quota * len(origins):
            verdicts[image] = QUOTA
        place = counts[JUDGED] % len(held)
        places[image] = place
        held[place] = plain[image]
        near[image:, place] = among[image, image:]
        window[counts[JUDGED] % len(window)] = figures[image]
        counts[JUDGED] += 1
        if counts[JUDGED] % RENEWED == 0:
            seen = min(counts[JUDGED], len(window))
            for k in range(4):
                middle = np.median(window[:seen, k])
                medians[0, k] = middle
                medians[1, k] = np.median(np.abs(window[:seen, k] - middle))
            if gap > 0 and counts[GAPLESS] < NO_GAP:
                counts[GAPLESS] = counts[GAPLESS] + RENEWED if medians[0, NEARNESS] > gap else 0
        if verdicts[image] == TO_LEARN:
            record[counts[LEARNED] % len(record)] = figures[image, :2]
            origins[counts[LEARNED] % len(origins)] = sources[image]
            counts[LEARNED] += 1
