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
    places = np.array([bank.place_of(label) for label in classes.tolist()], np.int64)
    uncertain = bank.sections.get("negative", slice(0, 0))  # items that are so by right
    against = np.zeros((len(classes), bank.sources.shape[1]), np.bool_)
    sources = bank.sources[classes]
    sources[:, uncertain] = -1
    if not _contradict(bank.rows, places, sources, classes, images, answers, least, near, against):
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

    Only images of a class that was answered so often can say so, and few are: the others are asked of an item only
    where enough of these lie near it.
    """
    cosines, often, count = np.empty(len(images), np.float32), _often(answers, least), 0
    for n in range(len(classes)):
        for slot in range(sources.shape[1]):
            if sources[n, slot] < 0:
                continue
            item, close = rows[places[n], slot], 0
            for k in range(len(images)):
                if often[k] and answers[k] != classes[n]:
                    cosines[k] = _unless_itself(dot(item, images[k]))
                    close += cosines[k] >= near
            if close < least:
                continue
            for k in range(len(images)):
                if not (often[k] and answers[k] != classes[n]):
                    cosines[k] = _unless_itself(dot(item, images[k]))
            against[n, slot] = _all_say_another(cosines, answers, classes[n], least, near)
            count += against[n, slot]
    return count


@njit(nogil=True)
def _often(answers: NDArray[np.int64], least: int) -> NDArray[np.bool_]:
    """(n,): whether an image's answer is that of `least` images or more."""
    often = np.empty(len(answers), np.bool_)
    for k in range(len(answers)):
        alike = 0
        for other in range(len(answers)):
            alike += answers[other] == answers[k]
        often[k] = answers[k] >= 0 and alike >= least
    return often


@njit(nogil=True)
def _unless_itself(cosine: np.float32) -> np.float32:
    return np.float32(-1) if cosine > ITSELF else cosine


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
