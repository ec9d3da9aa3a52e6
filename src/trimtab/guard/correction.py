"""What a human answer changes: the items that an image left move to the class it shows, and a memory believes it."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.bank import KNOWN
from trimtab.engine.state import State


def correct(state: State, position: int, label: int, feature: Array | None) -> int | None:
    """Move what a state holds of an image to its class; how many items there were, None if it has no bank.

    `feature` (d,) is used where nothing is held of the image. An item that is right already becomes one that stays.
    """
    found, banks = 0, list(state.banks())
    for bank in banks:
        held = bank.sources == position
        places = np.argwhere(held)
        moved = bank.item(*places[0].tolist()) if len(places) else feature
        found += len(places)
        bank.drop(held)
        if moved is not None:
            bank.place(label, moved, position)
    return found + state.correct(position, label) if banks else None


def without_corrected(positions: NDArray[np.int64], state: State) -> NDArray[np.int64]:
    """Of these images, those that nobody has corrected: a guard lets go of what it doubts, not of what is known."""
    known = [bank.sources[bank.scores == KNOWN] for bank in state.banks()]
    return np.setdiff1d(positions, np.concatenate(known)) if known else positions
