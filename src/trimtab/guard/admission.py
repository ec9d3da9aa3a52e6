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

from trimtab.engine.arrays import Array, Arrays, Doubles, aligned_zeros
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import VECTORIZE, best_of, key_of
from trimtab.engine.products import pair_products
from trimtab.fusion.loops import total_of
from trimtab.guard.book import Book
from trimtab.guard.medians import LAST, renew_medians
from trimtab.guard.rules import Guard

HELD = 128  # images that others are compared with: the last that were no duplicates, learned or not
WINDOW = 128  # images that the medians speak of
RENEWED = 16  # images between two computations of the medians
ORIGINS = 256  # images learned whose sources are counted for a quota
RECORD = 2048  # images learned whose figures are kept, to be judged again later
DIARY = 2048  # images whose verdicts are kept
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
# Places in what is found of an image: where it is held, which of those before it was nearest (-1: none), whether it is
# learned from, and who sent it.
PLACE, NEIGHBOR, LEARNS, SENDER = range(4)
LAST_PLACE = np.int64(2**32 - 1)  # places are counted backward from here, where the first is to be the highest
NO_SOURCE = -1
NOBODY = np.zeros(0, np.int64)


class Verdict(IntEnum):
    """Why an image was learned from or not."""

    LEARNED = 0
    DUPLICATE = 1  # nearly one that was learned before
    STRANGE = 2  # far closer to the text than the stream's images are, or nearly as close to a text as to images
    QUOTA = 3  # its source has sent too many
    UNKNOWN = 4  # it shows none of the classes


# As compiled code knows them.
TO_LEARN, DUPLICATE, STRANGE, QUOTA, UNKNOWN = map(int, Verdict)

# Of a watch's book, what judging changes.
JUDGED_FIELDS = [
    ("window", np.float64, (WINDOW, 5)),  # HIGHEST, MEAN, SPREAD, NEARNESS, ALONE of the last images
    ("medians", np.float64, (2, 5)),  # of the window: medians, and median absolute deviations
    ("record", np.float64, (RECORD, 3)),  # HIGHEST, MEAN, ALONE of the last images learned
    ("origins", np.int64, ORIGINS),  # the sources of the last images learned
    ("counts", np.int64, 3),
    ("verdicts", np.int8, DIARY),  # of the last images, a ring; as are the next
    ("details", np.float64, (DIARY, 4)),
    ("by_verdict", np.int64, len(Verdict)),  # how many images there were of each
]


class Admission:
    """Running figures of a stream, and the last images learned. All of it is arrays, saved with the state."""

    def __init__(self, dim: int, guard: Guard, book: Book) -> None:
        self._strange, self._floor = guard.strange, guard.floor
        self._limits = (guard.duplicates, guard.gap, guard.strange, guard.floor, guard.quota)
        self.held: Array = aligned_zeros((HELD, dim))
        self._book = book
        self.window: Doubles = book["window"][0]
        self.medians: Doubles = book["medians"][0]
        self.record: Doubles = book["record"][0]
        self.origins: NDArray[np.int64] = book["origins"][0]
        self.origins[:] = NO_SOURCE
        self.counts: NDArray[np.int64] = book["counts"][0]
        self.found = np.zeros((4, 0), np.int64)  # of the images judged last: see `judge`
        self.untold = 0  # see `judge_again`
        # For a single image: its products, and what is found; fresh arrays take longer than to fill them.
        self._room: Array = np.empty((1, HELD), np.float32)
        self._found, self._learned = np.zeros((4, 1), np.int64), np.zeros(1, np.bool_)
        # Of the loops that judge a block, that hold its images, and that judge what was learned again.
        self._judge: Callable[..., None] | None = None
        self._hold: Callable[..., None] | None = None
        self._again: Callable[..., tuple[int, int]] | None = None

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("held", "window", "medians", "record", "origins", "counts")
        return {name: getattr(self, name) for name in names}

    def judge(self, block: Block, sources: NDArray[np.int64], doubts: Doubles) -> NDArray[np.bool_]:
        """(B,): whether each image of a block may be learned from, judged by those before it; the book says why.

        `doubts` (B,) are the probabilities that they show none of the classes. `found` (4, B) then says where each
        image goes in `held`, and what else its answer is heard with. One alone is held at once, several with `hold`: a
        block may be broken off. What is told of one alone is true until the next.
        """
        plain = block.plain
        if len(plain) == 1:
            near = among = self._room  # the first is found on the way, the other unused
            self.found, learned = self._found, self._learned
        else:
            near = self.held @ plain.T  # a twentieth of a verdict faster than the other way round
            among = block.among if block.asks_plain else plain @ plain.T
            self.found, learned = np.empty((4, len(plain)), np.int64), np.empty(len(plain), np.bool_)
        arguments = (
            plain,
            block.cosines,
            block.task.text_prototypes if block.text is None else block.text,
            near,
            among,
            sources,
            doubts,
            self._limits,
            self.held,
            self._book,
            block.first,
            self.found,
            learned,
        )
        self._judge = self._judge or code_for(_judge, *arguments)
        self._judge(*arguments)
        return learned

    def hold(self, block: Block) -> None:
        """Hold the images of the block judged last, all of which were answered."""
        arguments = block.plain, self.found, self.held
        self._hold = self._hold or code_for(_hold, *arguments)
        self._hold(*arguments)

    def judge_again(self) -> float:
        """The share of the images on record, all learned, that would not be learned now.

        `untold` is then how many of these `newly_strange` was not yet asked for.
        """
        known = int(self.counts[LEARNED])
        if known == 0 or self._strange == 0 or self.counts[JUDGED] < RENEWED:
            self.untold = 0
            return 0.0
        arguments = self.record, self.counts, self.medians, self._strange, self._floor
        self._again = self._again or code_for(_count_beyond, *arguments)
        beyond, self.untold = self._again(*arguments)
        return beyond / min(known, RECORD)

    def newly_strange(self, verdicts: NDArray[np.int8], seen: int) -> NDArray[np.int64]:
        """The positions of images on record that would not be learned now, each told once; `verdicts` are a ring."""
        self.untold = 0
        return _newly_beyond(
            self.record, int(self.counts[LEARNED]), self.medians, self._strange, self._floor, verdicts, seen
        )

    def forget_record(self) -> None:
        """What was learned is no longer there: judge only what is learned from now on.

        That the encoder knows no gap was learned from the same images.
        """
        self.record[:] = 0
        self.origins[:] = NO_SOURCE
        self.counts[LEARNED] = self.counts[GAPLESS] = self.untold = 0


def figures_of(block: Block) -> Doubles:
    """(B, 5): the highest text cosine of each image's plain view, their mean over the classes, and their spread.

    NEARNESS and ALONE are known only among other images.
    """
    figures = np.zeros((len(block), 5))
    for row, cosines in enumerate(block.cosines):
        _figures(cosines[0], figures[row])
    return figures


@njit(fastmath=VECTORIZE, nogil=True)
def _figures(cosines: Array, out: Doubles) -> int:
    """Write what (C,) cosines with the text say; which of them is the highest."""
    classes, best = len(cosines), best_of(cosines)
    mean, square = total_of(cosines) / np.float32(classes), np.float32(0)
    for c in range(classes):
        square += (cosines[c] - mean) * (cosines[c] - mean)
    out[HIGHEST], out[MEAN] = cosines[best], mean
    out[SPREAD], out[NEARNESS], out[ALONE] = np.sqrt(square / np.float32(classes)), 0.0, 0.0
    return best


@njit(nogil=True)
def _is_beyond(figures: Doubles, medians: Doubles, strange: float, floor: float) -> bool:
    """Whether an image's figures lie too many deviations above the medians."""
    for place, k in enumerate(COMPARED):
        deviation = max(DEVIATION * medians[1, k], floor * medians[0, SPREAD])
        if figures[place] - medians[0, k] > strange * deviation:
            return True
    return False


@njit(nogil=True)
def _count_beyond(
    record: Doubles, counts: NDArray[np.int64], medians: Doubles, strange: float, floor: float
) -> tuple[int, int]:
    """How many images on record have figures that lie beyond, and of how many of them these are finite."""
    least = floor * medians[0, SPREAD]
    first = strange * max(DEVIATION * medians[1, HIGHEST], least)
    second = strange * max(DEVIATION * medians[1, MEAN], least)
    third = strange * max(DEVIATION * medians[1, ALONE], least)
    highest, mean, alone = medians[0, HIGHEST], medians[0, MEAN], medians[0, ALONE]
    beyond = finite = 0
    for image in range(min(counts[LEARNED], len(record))):  # `_is_beyond`, in vector instructions
        is_beyond = (
            (record[image, 0] - highest > first)
            | (record[image, 1] - mean > second)
            | (record[image, 2] - alone > third)
        )
        beyond += is_beyond
        finite += is_beyond & (record[image, 0] < np.inf)
    return beyond, finite


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
    held: Array,
    book: Book,
    first: int,
    found: NDArray[np.int64],
    learned: NDArray[np.bool_],
) -> None:
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
            best = _figures(cosines, figures)
            distance = max(1 - usual, (1 - figures[HIGHEST]) / 4)  # where all are equal, the text is a yardstick
            if kept > 0 and 1 - nearest < duplicates * distance:
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
            named = quota > 0 and verdict == TO_LEARN and sources[image] != NO_SOURCE
            if named and (origins == sources[image]).sum() >= quota * len(origins):
                verdict = QUOTA
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
            origins[counts[LEARNED] % len(origins)] = sources[image]
            counts[LEARNED] += 1
        learned[image] = found[LEARNS, image] = verdict == TO_LEARN
        found[SENDER, image] = sources[image]
        verdicts[(first + image) % len(verdicts)] = verdict
        by_verdict[verdict] += 1
    if len(plain) == 1:  # of one image nothing can be left half done
        _hold(plain, found, held)


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
def _hold(plain: Array, found: NDArray[np.int64], held: Array) -> None:
    """Put the images (B, d) of a block where they are held; -1: nowhere."""
    for image in range(len(plain)):
        if found[PLACE, image] >= 0:
            row, place = plain[image], held[found[PLACE, image]]
            for k in range(len(row)):
                place[k] = row[k]
