"""Admission: what a stream may learn from, decided from an image's features and the text alone.

An image is judged before the method sees it, so one rule serves every method, and a block is judged at once:

* a near-duplicate of one of the last images that were learned is not learned again: a burst, a retry, a flood;
* an image that is about as close to a text as it is to other images is not learned. Encoders of two modalities keep
  texts and images in two cones; what makes a method sure of a wrong class is text that was mixed into an image, and
  that leaves the images' cone. This needs no statistics, so it holds from the second image on. An encoder that keeps no
  such gap is recognized by all of its images being so for a long time; then the rule is silent;
* an image that is far closer to the text than the others are is not learned: its highest cosine with any text, or its
  mean cosine with all of them, is compared with the median of the last images, in median deviations;
* so is how much closer it is to its best text than the images next to it are. Neighbors lie about equally close to any
  text. Text that was mixed in moves an image hardly at all among images, so its neighbors are those of what it shows,
  and stay behind. That finds weak blends of encoders whose texts and images lie close together.

The statistics are of all images that are no duplicates, learned or not, so that a stream that has changed is followed.
A deviation is never taken to be less than a share of the spread that one image's text cosines have over the classes:
that needs no second image, so equal images cannot make the guard blind, and no scale has to be given.
"""

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import VECTORIZE, best_of
from trimtab.engine.products import dot, pair_products
from trimtab.fusion.loops import total_of
from trimtab.guard.rules import Guard

HELD = 128  # images that others are compared with: the last that were no duplicates, learned or not
WINDOW = 128  # images that the medians speak of
RENEWED = 16  # images between two computations of the medians
ORIGINS = 256  # images learned whose sources are counted for a quota
RECORD = 2048  # images learned whose figures are kept, to be judged again later
UNKNOWN_FROM = 0.5  # probability that an image shows none of the classes, from which on it is not learned
NO_GAP = 512  # images in a row over which the median image was too close to a text: the encoder knows no gap
CLOSER = 0.75  # of `strange`: deviations that are too many from one's neighbors, where clean images keep closer
DEVIATION = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations

# Places in the figures of an image, and of the running medians.
HIGHEST, MEAN, SPREAD, NEARNESS, ALONE = range(5)
COMPARED = (HIGHEST, MEAN, ALONE)  # with the medians; the record holds these
# Places in the array of counts.
JUDGED, LEARNED, GAPLESS = range(3)
# Places in the details of a verdict.
NEAREST, TO_TEXT, BEYOND, APART = range(4)
NO_SOURCE = -1


class Verdict(IntEnum):
    """Why an image was learned from or not."""

    LEARNED = 0
    DUPLICATE = 1  # nearly one that was learned before
    STRANGE = 2  # far closer to the text than the stream's images are, or nearly as close to a text as to images
    QUOTA = 3  # its source has sent too many
    UNKNOWN = 4  # it shows none of the classes


# As compiled code knows them.
TO_LEARN, DUPLICATE, STRANGE, QUOTA, UNKNOWN = map(int, Verdict)

# Of the last images in a ring: verdicts and details; and how many there were of each verdict.
Diary = tuple[NDArray[np.int8], Doubles, NDArray[np.int64]]


class Admission:
    """Running figures of a stream, and the last images learned. All of it is arrays, saved with the state."""

    def __init__(self, dim: int, guard: Guard) -> None:
        self._strange, self._floor = guard.strange, guard.floor
        self._limits = (guard.duplicates, guard.gap, guard.strange, guard.floor, guard.quota)
        self.held: Array = np.zeros((HELD, dim), np.float32)
        self.window: Doubles = np.zeros((WINDOW, 5))  # HIGHEST, MEAN, SPREAD, NEARNESS, ALONE of the last images
        self.medians: Doubles = np.zeros((2, 5))  # of the window: medians, and median absolute deviations
        self.record: Doubles = np.zeros((RECORD, 3))  # HIGHEST, MEAN, ALONE of the last images learned
        self.origins = np.full(ORIGINS, NO_SOURCE, np.int64)  # the sources of the last images learned
        self.counts = np.zeros(3, np.int64)
        self.found = np.zeros((2, 0), np.int64)  # of the images judged last: see `judge`
        self._known = (self.held, self.window, self.medians, self.record, self.origins, self.counts)
        self._room: Array = np.empty((1, HELD), np.float32)  # for a single image's products
        self._code: Callable[..., None] | None = None  # of the loop that judges a block

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("held", "window", "medians", "record", "origins", "counts")
        return {name: getattr(self, name) for name in names}

    def judge(self, block: Block, sources: NDArray[np.int64], doubts: Doubles, diary: Diary) -> NDArray[np.bool_]:
        """(B,): whether each image of a block may be learned from, judged by those before it; the diary says why.

        `doubts` (B,) are the probabilities that they show none of the classes. `found` (2, B) then says where each
        image went in `held`, and which of those before it was nearest; -1: none.
        """
        plain = block.plain
        if len(plain) == 1:
            near = among = self._room  # the first is found on the way, the other unused
        else:
            near = plain @ self.held.T
            among = block.among if block.asks_plain else plain @ plain.T
        self.found = np.empty((2, len(plain)), np.int64)
        learned = np.empty(len(plain), np.bool_)
        arguments = (
            plain,
            block.cosines,
            block.task.text_prototypes if block.text is None else block.text,
            near,
            among,
            sources,
            doubts,
            self._limits,
            self._known,
            block.first,
            diary,
            self.found,
            learned,
        )
        self._code = self._code or code_for(_judge, *arguments)
        self._code(*arguments)
        return learned

    def learned_strangely(self) -> float:
        """The share of the images on record, all learned, that would not be learned now."""
        known = min(int(self.counts[LEARNED]), RECORD)
        if known == 0 or self._strange == 0 or self.counts[JUDGED] < RENEWED:
            return 0.0
        return _share_beyond(self.record[:known], self.medians, self._strange, self._floor)

    def newly_strange(self, verdicts: NDArray[np.int8], seen: int) -> NDArray[np.int64]:
        """The positions of images on record that would not be learned now, each told once; `verdicts` are a ring."""
        if self._strange == 0 or self.counts[JUDGED] < RENEWED:
            return np.zeros(0, np.int64)
        return _newly_beyond(
            self.record, int(self.counts[LEARNED]), self.medians, self._strange, self._floor, verdicts, seen
        )

    def forget_record(self) -> None:
        """What was learned is no longer there: judge only what is learned from now on.

        That the encoder knows no gap was learned from the same images.
        """
        self.record[:] = 0
        self.origins[:] = NO_SOURCE
        self.counts[LEARNED] = self.counts[GAPLESS] = 0


def figures_of(block: Block) -> Doubles:
    """(B, 5): the highest text cosine of each image's plain view, their mean over the classes, and their spread.

    NEARNESS and ALONE are known only among other images.
    """
    figures = np.zeros((len(block), 5))
    for row, cosines in enumerate(block.cosines):
        _figures(cosines[0], figures[row])
    return figures


@njit(fastmath=VECTORIZE, nogil=True)
def _figures(cosines: Array, out: Doubles) -> None:
    classes = len(cosines)
    highest, total, square = cosines[0], np.float32(0), np.float32(0)
    for c in range(classes):
        highest = max(highest, cosines[c])
        total += cosines[c]
    mean = total / np.float32(classes)
    for c in range(classes):
        square += (cosines[c] - mean) * (cosines[c] - mean)
    out[HIGHEST], out[MEAN] = highest, mean
    out[SPREAD], out[NEARNESS], out[ALONE] = np.sqrt(square / np.float32(classes)), 0.0, 0.0


@njit(nogil=True)
def _is_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> bool:
    """Whether an image's figures lie too many deviations above the medians."""
    for place, k in enumerate(COMPARED):
        deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
        if figures[place] - medians[0, k] > strange * deviation:
            return True
    return False


@njit(nogil=True)
def _share_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> float:
    """The share of images whose figures lie beyond."""
    beyond = 0
    for image in range(len(figures)):
        beyond += _is_beyond(figures[image], medians, strange, floor)
    return beyond / len(figures)


@njit(nogil=True)
def _any_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> bool:
    """Whether there are images whose figures are finite and lie beyond."""
    count = 0
    for image in range(len(figures)):
        count += _is_beyond(figures[image], medians, strange, floor) & (figures[image, 0] < np.inf)
    return count > 0


@njit(nogil=True)
def _newly_beyond(
    record: Doubles,
    learned: int,
    medians: Doubles,
    strange: float,
    floor: float,
    verdicts: NDArray[np.int8],
    seen: int,
) -> NDArray[np.int64]:
    """The positions of images on record whose figures lie beyond. They are infinite from then on: told once, and still
    counted as strange.
    """
    found, count = np.empty(len(record), np.int64), 0
    if not _any_beyond(record[: min(learned, len(record))], medians, strange, floor):
        return found[:0]  # as a rule, and found in a sixth of the time
    position, oldest = seen - 1, max(0, seen - len(verdicts))
    for image in range(learned - 1, max(learned - len(record), 0) - 1, -1):  # the last first
        while position >= oldest and verdicts[position % len(verdicts)] != TO_LEARN:
            position -= 1
        if position < oldest:
            break
        figures = record[image % len(record)]
        if figures[0] < np.inf and _is_beyond(figures, medians, strange, floor):
            found[count] = position
            count += 1
            figures[:] = np.inf
        position -= 1
    return found[:count]


@njit(fastmath=VECTORIZE, nogil=True)
def _judge(
    plain: Array,
    cosines_with_text: Array,
    text: Array,
    near: Array,
    among: Array,
    sources: NDArray[np.int64],
    doubts: Doubles,
    limits: tuple[float, float, float, float, float],
    known: tuple[Array, Doubles, Doubles, Doubles, NDArray[np.int64], NDArray[np.int64]],
    first: int,
    diary: Diary,
    found: NDArray[np.int64],
    learned: NDArray[np.bool_],
) -> None:
    duplicates, gap, strange, floor, quota = limits
    held, window, medians, record, origins, counts = known
    figures = np.empty(5)
    for image in range(len(plain)):
        details = diary[1][(first + image) % len(diary[1])]
        details[:], found[:, image] = 0, -1
        verdict = UNKNOWN if doubts[image] > UNKNOWN_FROM else TO_LEARN
        kept = min(counts[JUDGED], len(held))
        nearest, usual = np.float32(-1), np.float32(0)
        if verdict == TO_LEARN:
            if len(plain) == 1:
                pair_products(held[:kept], plain[0], near[0], 0, kept)
            if kept > 0:
                cosines = near[image, :kept]
                found[1, image] = best_of(cosines)
                nearest, usual = cosines[found[1, image]], total_of(cosines) / np.float32(kept)
            details[NEAREST] = nearest
            _figures(cosines_with_text[image, 0], figures)
            distance = max(1 - usual, (1 - figures[HIGHEST]) / 4)  # where all are equal, the text is a yardstick
            if kept > 0 and 1 - nearest < duplicates * distance:
                verdict = DUPLICATE
        if verdict == TO_LEARN:
            figures[NEARNESS] = figures[HIGHEST] / max(usual, 1e-6) if kept > 0 else 0.0
            details[TO_TEXT] = figures[NEARNESS]
            if gap > 0 and counts[GAPLESS] < NO_GAP and figures[NEARNESS] > gap:
                verdict = STRANGE
            if kept > 2 and strange > 0:
                figures[ALONE] = _alone(near[image, :kept], held, text, cosines_with_text[image, 0])
            if counts[JUDGED] >= RENEWED and strange > 0:
                for k in COMPARED:
                    deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
                    where = APART if k == ALONE else BEYOND
                    details[where] = max(details[where], (figures[k] - medians[0, k]) / max(deviation, 1e-9))
                if details[BEYOND] > strange or details[APART] > CLOSER * strange:
                    verdict = STRANGE
            named = quota > 0 and verdict == TO_LEARN and sources[image] != NO_SOURCE
            if named and (origins == sources[image]).sum() >= quota * len(origins):
                verdict = QUOTA
            place = counts[JUDGED] % len(held)
            found[0, image] = place
            held[place] = plain[image]
            if len(plain) > 1:
                near[image:, place] = among[image, image:]
            window[counts[JUDGED] % len(window)] = figures
            counts[JUDGED] += 1
            if counts[JUDGED] % RENEWED == 0:
                _renew(window[: min(counts[JUDGED], len(window))], medians)
                if gap > 0 and counts[GAPLESS] < NO_GAP:
                    counts[GAPLESS] = counts[GAPLESS] + RENEWED if medians[0, NEARNESS] > gap else 0
        if verdict == TO_LEARN:
            entry = record[counts[LEARNED] % len(record)]
            entry[0], entry[1] = figures[HIGHEST], figures[MEAN]
            entry[2] = figures[ALONE] if kept >= RENEWED else 0.0  # among few, neighbors are far, and say too little
            origins[counts[LEARNED] % len(origins)] = sources[image]
            counts[LEARNED] += 1
        learned[image] = verdict == TO_LEARN
        diary[0][(first + image) % len(diary[0])] = verdict
        diary[2][verdict] += 1


@njit(nogil=True)
def _alone(near: Array, held: Array, text: Array, cosines: Array) -> float:
    """How much closer an image is to its best text than the three held images that are nearest, by their cosines."""
    best, theirs = best_of(cosines), np.float32(0)
    first = second = third = 0  # of the first three held, then of all
    for k in range(len(near)):
        if k == 0 or near[k] > near[first]:
            first, second, third = k, first, second
        elif k == 1 or near[k] > near[second]:
            second, third = k, second
        elif k == 2 or near[k] > near[third]:
            third = k
    for k in (first, second, third):
        theirs += dot(held[k], text[best])
    return float(cosines[best] - theirs / np.float32(3))


@njit(nogil=True)
def _renew(window: Doubles, medians: Doubles) -> None:
    """The medians of some images' figures, and the median deviations of those that are judged by them."""
    for k in range(window.shape[1]):
        medians[0, k] = np.median(window[:, k])
    for k in COMPARED:
        medians[1, k] = np.median(np.abs(window[:, k] - medians[0, k]))
