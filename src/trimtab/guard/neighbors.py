"""Items that their neighbors contradict: crafted images that passed lie among images of the class they came from."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank

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
    cosines[cosines > ITSELF] = -1
    nearest = np.argpartition(-cosines, least - 1, axis=1)[:, :least]
    said = answers[nearest]
    lie_near = np.take_along_axis(cosines, nearest, axis=1).min(axis=1) >= near
    against = (said == said[:, :1]).all(axis=1) & (said[:, 0] != labels) & (said[:, 0] >= 0) & lie_near
    gone[labels[against], slots[against]] = True
    return gone
