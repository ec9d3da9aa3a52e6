"""Items that their neighbors contradict: crafted images that passed lie among images of the class they came from."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import best_of

ITSELF = 0.999  # an image nearer than this to an item is the item: it says nothing


def contradicted(
    bank: Bank, classes: NDArray[np.int64], images: Array, answers: NDArray[np.int64], least: int, near: float
) -> NDArray[np.bool_]:
    """(C, K): the items of some classes whose `least` nearest images (n, d) were all answered with one other class.

    They must lie `near`: cosines.
    """
    gone = np.zeros(bank.sources.shape, np.bool_)
    asked = bank.sources[classes] >= 0
    if "negative" in bank.sections:  # whose items are uncertain by right
        asked[:, bank.sections["negative"]] = False
    rows, slots = np.nonzero(asked)
    if len(images) <= least or len(rows) == 0:
        return gone
    labels = classes[rows]
    places = [bank.place_of(int(label)) for label in labels]
    cosines = bank.rows[places, slots] @ images.T
    against = np.zeros(len(rows), np.bool_)
    _contradict(cosines, answers, labels, least, near, against)
    gone[labels[against], slots[against]] = True
    return gone


@njit(nogil=True)
def _contradict(
    cosines: Array,
    answers: NDArray[np.int64],
    labels: NDArray[np.int64],
    least: int,
    near: float,
    against: NDArray[np.bool_],
) -> None:
    """(n,): whether the `least` highest cosines (n, images) of an item are near, and all say one class, not its own."""
    for item in range(len(cosines)):
        row, said, alike = cosines[item], np.int64(-1), True
        for k in range(len(row)):
            if row[k] > ITSELF:
                row[k] = -1
        for nearest in range(least):
            best = best_of(row)
            if nearest == 0:
                said = answers[best]
            alike = alike and row[best] >= near and answers[best] == said
            row[best] = -2
        against[item] = alike and said >= 0 and said != labels[item]
