"""Snapshots: the last good states of a stream, in a ring, kept beside it and saved with it."""

import logging

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Arrays
from trimtab.engine.state import fill
from trimtab.guard.watch import RETURNS, Watch

_log = logging.getLogger(__name__)

EVERY = 512  # images between two snapshots


class Snapshots:
    """Copies of everything learned, from when adapting was seen to do no harm; the newest takes the oldest's place."""

    def __init__(self, learned: Arrays, count: int) -> None:
        self._kept: Arrays = {name: np.zeros((count, *array.shape), array.dtype) for name, array in learned.items()}
        self.taken: NDArray[np.int64] = np.full(count, -1, np.int64)  # images seen by then; -1: never, or put back

    def arrays(self) -> Arrays:
        """What is saved."""
        return {"taken": self.taken, **self._kept}

    def let_go(self, positions: NDArray[np.int64]) -> None:
        """Drop each snapshot that holds one of these images, so that what was let go of, or corrected, stays so.

        Whoever holds images keeps their positions in an array called `sources`.
        """
        holding = np.zeros(len(self.taken), np.bool_)
        for name, kept in self._kept.items():
            if name.endswith("sources"):
                holding |= np.isin(kept, positions).reshape(len(kept), -1).any(axis=1)
        self.taken[holding] = -1
        for kept in self._kept.values():
            kept[holding] = 0

    def look_back(self, seen: int, watch: Watch, learned: Arrays, *, go_back: bool) -> None:
        """Put the newest snapshot back, which is then used up; or take one if it is time and all is well."""
        newest, oldest = int(self.taken.argmax()), int(self.taken.argmin())
        if go_back and self.taken[newest] >= 0:
            fill(learned, {name: kept[newest] for name, kept in self._kept.items()})
            _log.warning("What was learned up to image %d is put back.", self.taken[newest])
            self.taken[newest] = -1
            watch.events[RETURNS] += 1
        elif seen % EVERY == 0 and not watch.fallen and watch.health.helps():
            fill({name: kept[oldest] for name, kept in self._kept.items()}, learned)
            self.taken[oldest] = seen
