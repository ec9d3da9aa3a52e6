"""Items that their neighbors contradict: crafted images that passed lie among images of the class they came from."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.bank import KNOWN, Bank
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import best_of
from trimtab.engine.pool import NOWHERE
from trimtab.engine.products import dot
from trimtab.guard.medians import median

ASKED = 32  # items that are compared with their neighbors at each look back
NO_SLOTS = slice(0, 0)
ITSELF = 0.999  # an image nearer than this to an item is the item: it says nothing


class Neighbors:
    """Asks the last images about a bank's items: those of a few classes at a time, in turn."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._found = np.empty((0, 2), np.int64)  # the class and the slot of each item that is contradicted
        self._code: Callable[..., int] | None = None

    def contradicted(
        self,
        bank: Bank,
        turn: int,
        held: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
        nearest: Doubles,
        seen: int,
    ) -> NDArray[np.bool_] | None:
        """(C, K): the items whose `least` nearest images were all answered with one other class; None: there are none.

        The images that are `held` (n, d) come with the answers to them (n,), and with counts of which the first is of
        all that ever were. They must lie as near as the last of all images `seen` had their nearest, in the middle: the
        cosines stand in the first column of a ring.
        """
        slots = bank.sources.shape[1]
        count = max(1, ASKED // max(1, slots))
        if len(self._found) < count * slots:
            self._found = np.empty((count * slots, 2), np.int64)
        uncertain = bank.sections.get("negative", NO_SLOTS)  # items that are so by right
        arguments = (
            bank.all_rows,
            bank.items_in_turn(turn * count, count),
            bank.scores,
            (bank.first_slot, uncertain.start, uncertain.stop),
            turn * count,
            count,
            held,
            self._least,
            nearest,
            seen,
            self._found,
        )
        self._code = self._code or code_for(_contradict, *arguments)
        against = self._code(*arguments)
        if not against:
            return None
        gone = np.zeros(bank.sources.shape, np.bool_)
        gone[self._found[:against, 0], self._found[:against, 1]] = True
        return gone


@njit(nogil=True)
def _contradict(
    rows: Array,
    items: tuple[NDArray[np.int64], NDArray[np.int32]],
    scores: Array,
    sections: tuple[int, int, int],
    turn: int,
    classes: int,
    held: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    least: int,
    nearest: Doubles,
    seen: int,
    found: NDArray[np.int64],
) -> int:
    """How many items of so many classes, the next in turn that hold any, have `least` highest cosines that are near and
    all say one class, not theirs; `found` then says which.

    Only images of a class that was answered so often can say so, and few are; the others are asked about an item only
    where enough of one class lie near it.
    """
    (labels, places), (first_slot, uncertain_from, uncertain_to) = items, sections
    known = min(held[2][0], len(held[0]))
    chosen = _in_turn(places, first_slot, turn, classes)
    if known <= least or len(chosen) == 0:
        return 0
    images, answers = held[0][:known], held[1][:known]
    near, cosines = _usual(nearest, seen, len(held[0])), np.empty(known, np.float32)
    enough, count = max(least, 1), 0
    order, starts = _by_answer(answers, enough)
    for c in chosen:
        for slot in range(first_slot, places.shape[1]):
            if places[c, slot] == NOWHERE or uncertain_from <= slot < uncertain_to:
                continue
            if scores[labels[c], slot] == KNOWN:  # by somebody, against whatever others were answered with
                continue
            item = rows[places[c, slot]]
            if _agree(item, labels[c], images, answers, order, starts, enough, near):
                for k in range(known):
                    cosines[k] = _cosine(item, images[k])
                if _all_say_another(cosines, answers, labels[c], least, near):
                    found[count, 0], found[count, 1] = labels[c], slot
                    count += 1
    return count


@njit(nogil=True)
def _in_turn(places: NDArray[np.int32], first_slot: int, turn: int, count: int) -> NDArray[np.int64]:
    """`count` rows, or all there are, of those whose slots (n, K) hold items: from this turn on, around."""
    holding, known = np.empty(len(places), np.int64), 0
    for c in range(len(places)):
        for slot in range(first_slot, places.shape[1]):
            if places[c, slot] != NOWHERE:
                holding[known] = c
                known += 1
                break
    chosen = np.empty(min(count, known), np.int64)
    for k in range(len(chosen)):
        chosen[k] = holding[(turn + k) % known]
    return chosen


@njit(nogil=True)
def _usual(nearest: Doubles, seen: int, count: int) -> float:
    """The median over the last `count` images of the cosine with the nearest, the first column of a ring."""
    last = np.empty(min(seen, count))
    for k in range(len(last)):
        last[k] = nearest[(seen - 1 - k) % len(nearest), 0]
    return median(last)


@njit(nogil=True)
def _by_answer(answers: NDArray[np.int64], least: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The images that were answered with a class that `least` images or more were answered with, class after class;
    and where each class begins, and the last ends.
    """
    counts, starts = np.zeros(answers.max() + 1, np.int64), np.zeros(len(answers) + 1, np.int64)
    for k in range(len(answers)):
        if answers[k] >= 0:
            counts[answers[k]] += 1
    classes = 0
    for c in range(len(counts)):  # from here on, where the next image of a class goes
        if counts[c] >= least:
            starts[classes + 1] = starts[classes] + counts[c]
            counts[c] = starts[classes]
            classes += 1
        else:
            counts[c] = -1
    order = np.empty(starts[classes], np.int64)
    for k in range(len(answers)):
        said = answers[k]
        if said >= 0 and counts[said] >= 0:
            order[counts[said]] = k
            counts[said] += 1
    return order, starts[: classes + 1]


@njit(nogil=True)
def _cosine(item: Array, image: Array) -> np.float32:
    """Of an item and an image; -1 if the image is the item."""
    cosine = dot(item, image)
    return np.float32(-1) if cosine > ITSELF else cosine


@njit(nogil=True)
def _agree(
    item: Array,
    label: int,
    images: Array,
    answers: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    least: int,
    near: float,
) -> bool:
    """Whether `least` images that lie near an item have one answer, not the label.

    Most lie farther, so a class is done with after a few: as soon as too few are left.
    """
    for c in range(len(starts) - 1):
        first, last, alike = starts[c], starts[c + 1], 0
        if answers[order[first]] == label:
            continue
        for k in range(first, last):
            if _cosine(item, images[order[k]]) >= near:
                alike += 1
            if alike + last - 1 - k < least:
                break
        if alike >= least:
            return True
    return False


@njit(nogil=True)
def _all_say_another(cosines: Array, answers: NDArray[np.int64], label: int, least: int, near: float) -> bool:
    """Whether the images of the highest cosines are near and were answered with one class, which is not the label."""
    said = answers[best_of(cosines)]
    for _ in range(least):
        best = best_of(cosines)
        if cosines[best] < near or answers[best] != said:
            return False
        cosines[best] = -2
    return bool(said >= 0 and said != label)
