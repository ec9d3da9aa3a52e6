"""Before: what the verdicts on a block overwrite, as it was, in case the block is broken off."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.compiled import code_for, njit

Bytes = NDArray[np.uint8]


class Before:
    """Of rings, the rows that coming images overwrite; of small arrays, everything.

    All are taken as rows of bytes, so that one compiled loop copies them: each array by itself takes a microsecond.
    The rooms stay from block to block: fresh memory costs more than the copy.
    """

    def __init__(self, rings: Sequence[NDArray[Any]], small: Sequence[NDArray[Any]]) -> None:
        rows = [ring.reshape(len(ring), -1) for ring in rings] + [array.reshape(1, -1) for array in small]
        self._rings: tuple[Bytes, ...] = tuple(ring.view(np.uint8) for ring in rows)
        self._rooms: tuple[Bytes, ...] = ()
        self._wholes = (0,) * len(small)
        self._firsts: tuple[int, ...] = ()
        self._count = 0
        self._code: Callable[..., None] | None = None

    def keep(self, firsts: tuple[int, ...], count: int) -> None:
        """`count` images come, which each ring counts from one of the `firsts` on."""
        if count != self._count:
            self._rooms = tuple(np.empty((min(count, len(ring)), ring.shape[1]), np.uint8) for ring in self._rings)
        self._firsts, self._count = firsts + self._wholes, count
        self._copy(back=False)

    def put_back(self) -> None:
        """Make everything what it was."""
        self._copy(back=True)

    def _copy(self, *, back: bool) -> None:
        arguments = self._rings, self._rooms, self._firsts, back
        self._code = self._code or code_for(_copy_rows, *arguments)
        self._code(*arguments)


@njit(nogil=True)
def _copy_rows(rings: tuple[Bytes, ...], rooms: tuple[Bytes, ...], firsts: tuple[int, ...], back: bool) -> None:
    """Between rooms and the rows of rings from the first on, around their ends."""
    for n in range(len(rings)):
        ring, room = rings[n].reshape(-1), rooms[n].reshape(-1)
        start = firsts[n] % len(rings[n]) * rings[n].shape[1]
        until_end = min(len(room), len(ring) - start)
        end, around = ring[start : start + until_end], ring[: len(room) - until_end]
        if back:
            _copy(room[:until_end], end)
            _copy(room[until_end:], around)
        else:
            _copy(end, room[:until_end])
            _copy(around, room[until_end:])


@njit(nogil=True)
def _copy(source: Bytes, target: Bytes) -> None:
    for k in range(len(source)):
        target[k] = source[k]
