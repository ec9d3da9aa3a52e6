"""Before: what the verdicts on a block overwrite, as it was, in case the block is broken off."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.generic]


class Before:
    """Of rings, the rows that coming images overwrite; of small arrays, everything.

    Both are kept in rooms that stay from block to block: fresh memory costs more than the copy.
    """

    def __init__(self, rings: list[Rows], small: list[Rows]) -> None:
        self._rings, self._small = rings, small
        self._rooms = [ring[:0] for ring in rings]
        self._copies = [np.empty_like(array) for array in small]
        self._firsts: list[int] = []
        self._count = 0

    def keep(self, firsts: list[int], count: int) -> None:
        """`count` images come, which each ring counts from one of the `firsts` on."""
        if count != self._count:
            self._rooms = [np.empty((min(count, len(ring)), *ring.shape[1:]), ring.dtype) for ring in self._rings]
        self._firsts, self._count = firsts, count
        for ring, room, first in zip(self._rings, self._rooms, firsts, strict=True):
            start, until_end = _where(ring, room, first)
            room[:until_end] = ring[start : start + until_end]
            room[until_end:] = ring[: len(room) - until_end]
        for array, copy in zip(self._small, self._copies, strict=True):
            copy[...] = array

    def put_back(self) -> None:
        """Make everything what it was."""
        for ring, room, first in zip(self._rings, self._rooms, self._firsts, strict=True):
            start, until_end = _where(ring, room, first)
            ring[start : start + until_end] = room[:until_end]
            ring[: len(room) - until_end] = room[until_end:]
        for array, copy in zip(self._small, self._copies, strict=True):
            array[...] = copy


def _where(ring: Rows, room: Rows, first: int) -> tuple[int, int]:
    """Where a ring's rows begin, and how many of them come before its end."""
    start = first % len(ring)
    return start, min(len(room), len(ring) - start)
