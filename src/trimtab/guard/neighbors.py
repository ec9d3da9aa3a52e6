"""Items that their neighbors contradict: crafted images that passed lie among images of the class they came from."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import best_of
from trimtab.engine.products import dot

ITSELF = 0.999  # an image nearer than this to an item is the item: it says nothing


def contradicted(
    bank: Bank, classes: NDArray[np.int64], images: Array, answers: NDArray[np.int64], least: int, near: float
) -> NDArray[np.bool_] | None:
    """(C, K): the items of some classes whose `least` nearest images (n, d) were all answered with one other class.

    They must lie `near`: cosines. None: there are no such items.
    """
    if len(images) <= least:
        return None
    places = bank.row_numbers(classes)
    uncertain = bank.sections.get("negative", slice(0, 0))  # items that are so by right
    against = np.zeros((len(classes), bank.sources.shape[1]), np.bool_)
    sources = bank.sources[classes]
    sources[:, uncertain] = -1
    if not _contradict(bank.all_rows, places, sources, classes, images, answers, least, near, against):
        return None
    gone = np.zeros(bank.sources.shape, np.bool_)
    gone[classes] = against
    return gone


@njit(nogil=True)
def holding(sources: NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """`count` classes, or all there are, of those that hold items (C, K), from the `first` of them on, around."""
    found, known = np.empty(len(sources), np.int64), 0
    for c in range(len(sources)):
        for slot in range(sources.shape[1]):
            if sources[c, slot] >= 0:
                found[known] = c
                known += 1
                break
    chosen = np.empty(min(count, known), np.int64)
    for k in range(len(chosen)):
        chosen[k] = found[(first + k) % known]
    return chosen


@njit(nogil=True)
def _contradict(
    rows: Array,
    places: NDArray[np.int64],
    sources: NDArray[np.int64],
    classes: NDArray[np.int64],
    images: Array,
    answers: NDArray[np.int64],
    least: int,
    near: float,
    against: NDArray[np.bool_],
) -> int:
    """How many items (n, K) of n classes have `least` highest cosines that are near, and all say one class, not theirs.

    Only images of a class that was answered so often can say so, and few are; the others are asked about an item only
    where enough of one class lie near it.
    """
    count, cosines = 0, np.empty(len(images), np.float32)
    enough = max(least, 1)
    order, starts = _by_answer(answers, enough)
    for n in range(len(sources)):
        for slot in range(sources.shape[1]):
            if sources[n, slot] < 0:
                continue
            item = rows[places[n, slot]]
            if _agree(item, classes[n], images, answers, order, starts, enough, near):
                for k in range(len(images)):
                    cosines[k] = _cosine(item, images[k])
                against[n, slot] = _all_say_another(cosines, answers, classes[n], least, near)
                count += against[n, slot]
    return count


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
