"""Snapshot: the last good state of a stream, kept beside it and saved with it."""

import numpy as np

from trimtab.engine.arrays import Arrays
from trimtab.engine.state import fill
from trimtab.guard.watch import RETURNS, Watch

EVERY = 512  # images between two snapshots


class Snapshot:
    """Copies of everything learned, from when adapting was seen to help."""

    def __init__(self, learned: Arrays) -> None:
        self._kept: Arrays = {name: np.zeros_like(array) for name, array in learned.items()}
        self.taken = np.full(1, -1, np.int64)  # images seen by then; -1: never

    def arrays(self) -> Arrays:
        """What is saved."""
        return {"taken": self.taken, **self._kept}

    def look_back(self, seen: int, watch: Watch, learned: Arrays, *, go_back: bool) -> None:
        """Put the snapshot back, or take one if it is time and all is well."""
        if go_back and self.taken[0] >= 0:
            fill(learned, self._kept)
            watch.events[RETURNS] += 1
        elif seen % EVERY == 0 and not watch.fallen and watch.health.helps():
            fill(self._kept, learned)
            self.taken[0] = seen
