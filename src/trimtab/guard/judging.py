"""Judging: what a stream may learn from, decided from an image's features and the text alone.

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

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, key_of
from trimtab.engine.products import pair_products
from trimtab.fusion.loops import total_of
from trimtab.guard.book import Book
from trimtab.guard.figures import ALONE, COMPARED, DEVIATION, HIGHEST, MEAN, NEARNESS, SPREAD, write_figures
from trimtab.guard.medians import LAST, renew_medians
from trimtab.guard.quota import is_over, take_turn
from trimtab.guard.verdicts import (
    APART,
    BEYOND,
    DUPLICATE,
    NEAREST,
    QUOTA,
    STRANGE,
    TO_LEARN,
    TO_TEXT,
    UNKNOWN,
)

RENEWED = 16  # images between two computations of the medians
UNKNOWN_FROM = 0.5  # probability that an image shows none of the classes, from which on it is not learned
NO_GAP = 512  # images in a row over which the median image was too close to a text: the encoder knows no gap
CLOSER = 0.75  # of `strange`: deviations that are too many from one's neighbors, where clean images keep closer

# Places in the array of counts.
JUDGED, LEARNED, GAPLESS = range(3)
# Places in what is found of an image: where it is held, which of those before it was nearest (-1: none), whether it is
# learned from, and who sent it.
PLACE, NEIGHBOR, LEARNS, SENDER = range(4)
LAST_PLACE = np.int64(2**32 - 1)  # places are counted backward from here, where the first is to be the highest


@njit(fastmath=VECTORIZE, nogil=True)
def judge(
    plain: Array,
    cosines_with_text: Array,
    text: Array,
    near: Array,
    among: Array,
    sources: NDArray[np.int64],
    doubts: Doubles,
    limits: tuple[float, float, float, float, float],
    held: Array,
    book: Book,
    first: int,
    found: NDArray[np.int64],
    learned: NDArray[np.bool_],
) -> None:
    """Judge the images of a block, one after the other; see `Admission.judge`."""
    duplicates, gap, strange, floor, quota = limits
    known = book[0]
    window, medians, record, origins = known["window"], known["medians"], known["record"], known["origins"]
    counts, verdicts, all_details, by_verdict = (
        known["counts"],
        known["verdicts"],
        known["details"],
        known["by_verdict"],
    )
    size, before = len(held), counts[JUDGED]
    own = near[0] if len(plain) == 1 else np.empty(size, np.float32)  # an image's products
    keys = np.empty(size, np.int64)
    figures, arrived = np.empty(5), np.empty(len(plain), np.int64)  # the block's images that are to be held, in order
    for image in range(len(plain)):
        details = all_details[(first + image) % len(all_details)]
        for k in range(len(details)):
            details[k] = 0.0
        found[PLACE, image] = found[NEIGHBOR, image] = -1
        verdict = UNKNOWN if doubts[image] > UNKNOWN_FROM else TO_LEARN
        kept, cosines = min(counts[JUDGED], size), cosines_with_text[image, 0]
        nearest, usual, closest = np.float32(-1), np.float32(0), (0, 0, 0)
        if verdict == TO_LEARN:
            if len(plain) == 1:
                pair_products(held[:kept], plain[0], own, 0, kept)
            else:
                for k in range(kept):
                    own[k] = near[k, image]
            if kept > 0:
                closest = _three_highest(own[:kept], keys[:kept])
                found[NEIGHBOR, image] = closest[0]
                nearest, usual = own[closest[0]], total_of(own[:kept]) / np.float32(kept)
            details[NEAREST] = nearest
            best = write_figures(cosines, figures)
            distance = max(1 - usual, (1 - figures[HIGHEST]) / 4)  # where all are equal, the text is a yardstick
            if duplicates > 0 and kept > 0 and 1 - nearest < duplicates * distance:  # of equals it may round below 0
                verdict = DUPLICATE
        if verdict == TO_LEARN:
            figures[NEARNESS] = figures[HIGHEST] / max(usual, 1e-6) if kept > 0 else 0.0
            details[TO_TEXT] = figures[NEARNESS]
            if gap > 0 and counts[GAPLESS] < NO_GAP and figures[NEARNESS] > gap:
                verdict = STRANGE
            if kept > 2 and strange > 0:
                one = _row(closest[0], before, counts[JUDGED], arrived, plain, held)
                two = _row(closest[1], before, counts[JUDGED], arrived, plain, held)
                three = _row(closest[2], before, counts[JUDGED], arrived, plain, held)
                figures[ALONE] = cosines[best] - _summed_dots(one, two, three, text[best]) / np.float32(3)
            if counts[JUDGED] >= RENEWED and strange > 0:
                for k in COMPARED:
                    deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
                    where = APART if k == ALONE else BEYOND
                    details[where] = max(details[where], (figures[k] - medians[0, k]) / max(deviation, 1e-9))
                if details[BEYOND] > strange or details[APART] > CLOSER * strange:
                    verdict = STRANGE
            if verdict == TO_LEARN:
                turn = counts[LEARNED] + by_verdict[QUOTA]
                verdict = QUOTA if is_over(origins, turn, sources[image], quota) else TO_LEARN
                take_turn(origins, turn, sources[image], verdict == TO_LEARN)
            place = counts[JUDGED] % size
            found[PLACE, image] = place
            arrived[counts[JUDGED] - before] = image
            for later in range(image + 1, len(plain)):
                near[place, later] = among[image, later]
            page = window[counts[JUDGED] % len(window)]
            for k in range(len(page)):
                page[k] = figures[k]
            counts[JUDGED] += 1
            if counts[JUDGED] % RENEWED == 0:
                renew_medians(window[: min(counts[JUDGED], len(window))], COMPARED, medians)
                if gap > 0 and counts[GAPLESS] < NO_GAP:
                    counts[GAPLESS] = counts[GAPLESS] + RENEWED if medians[0, NEARNESS] > gap else 0
        if verdict == TO_LEARN:
            entry = record[counts[LEARNED] % len(record)]
            entry[0], entry[1] = figures[HIGHEST], figures[MEAN]
            entry[2] = figures[ALONE] if kept >= RENEWED else 0.0  # among few, neighbors are far, and say too little
            counts[LEARNED] += 1
        learned[image] = found[LEARNS, image] = verdict == TO_LEARN
        found[SENDER, image] = sources[image]
        verdicts[(first + image) % len(verdicts)] = verdict
        by_verdict[verdict] += 1
    if len(plain) == 1:  # of one image nothing can be left half done
        hold(plain, found, held)


@njit(nogil=True)
def _three_highest(values: Array, keys: NDArray[np.int64]) -> tuple[int, int, int]:
    """Where the three highest of (n,) numbers stand, the highest first; of equals, the first. There must be three, else
    only as many places say anything. `keys` is room for as many whole numbers.

    A number's key and its place make one whole number, so each of the three is found in one pass in vector
    instructions. Comparing one after the other takes three times as long: nobody can foretell where a branch goes.
    """
    for k in range(len(values)):
        keys[k] = (np.int64(key_of(values[k])) << 32) + (LAST_PLACE - k)
    first = _highest_below(LAST, keys)
    second = _highest_below(first, keys)
    third = _highest_below(second, keys)
    return _place_in(first), _place_in(second), _place_in(third)


@njit(nogil=True)
def _place_in(key: np.int64) -> int:
    return int(LAST_PLACE - (key & LAST_PLACE))


@njit(nogil=True)
def _highest_below(limit: np.int64, keys: NDArray[np.int64]) -> np.int64:
    """The highest of (n,) whole numbers that are lower than one."""
    highest = -LAST
    for k in range(len(keys)):
        highest = max(highest, keys[k] if keys[k] < limit else -LAST)
    return highest


@njit(nogil=True)
def _row(place: int, before: int, by_now: int, arrived: NDArray[np.int64], plain: Array, held: Array) -> Array:
    """(d,): what is held at a place by now, which is an image of the block (B, d) if that has arrived since."""
    since = (place - before) % len(held)
    return plain[arrived[since]] if since < by_now - before else held[place]


@njit(fastmath=VECTORIZE, nogil=True)
def _summed_dots(one: Array, two: Array, three: Array, text: Array) -> np.float32:
    """The sum of three inner products with the text."""
    total = np.float32(0)
    for k in range(len(text)):
        total += (one[k] + two[k] + three[k]) * text[k]
    return total


@njit(nogil=True)
def hold(plain: Array, found: NDArray[np.int64], held: Array) -> None:
    """Put the images (B, d) of a block where they are held; -1: nowhere."""
    for image in range(len(plain)):
        if found[PLACE, image] >= 0:
            row, place = plain[image], held[found[PLACE, image]]
            for k in range(len(row)):
                place[k] = row[k]
