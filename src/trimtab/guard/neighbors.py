"""Items that their neighbors contradict: crafted images that passed lie among images of the class they came from."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank

AT_ONCE = 4096  # items compared with the last images at a time


def contradicted(bank: Bank, images: Array, answers: NDArray[np.int64], least: int, same: float) -> NDArray[np.bool_]:
    """(C, K): the items whose `least` nearest images (n, d) lie near and were all answered with one other class.

    Near is as near as half of the images have their nearest one. An image that is the item itself, nearer than `same`
    (a share of the usual distance), says nothing.
    """
    classes, slots, dim = bank.features.shape
    gone = np.zeros((classes, slots), np.bool_)
    if len(images) <= least + 1:
        return gone
    own = images @ images.T
    itself = 1 - same * (1 - own.mean())
    np.fill_diagonal(own, -1)
    near = np.median(own.max(axis=1))
    asked = bank.sources >= 0
    if "negative" in bank.sections:  # whose items are uncertain by right
        asked[:, bank.sections["negative"]] = False
    held = np.flatnonzero(asked.ravel())
    features, labels = bank.features.reshape(-1, dim), np.repeat(np.arange(classes), slots)
    for first in range(0, len(held), AT_ONCE):
        some = held[first : first + AT_ONCE]
        cosines = features[some] @ images.T
        cosines[cosines > itself] = -1
        nearest = np.argpartition(-cosines, least - 1, axis=1)[:, :least]
        said = answers[nearest]
        far = np.take_along_axis(cosines, nearest, axis=1).min(axis=1) < near
        against = (said == said[:, :1]).all(axis=1) & (said[:, 0] != labels[some]) & (said[:, 0] >= 0) & ~far
        gone.reshape(-1)[some[against]] = True
    return gone
