"""Before: what the verdicts on a block overwrite, as it was, in case the block is broken off."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.compiled import code_for, njit
from trimtab.guard.book import Book
from trimtab.guard.judging import JUDGED, LEARNED
from trimtab.guard.verdicts import QUOTA


class Before:
    """Of a book's rings, the rows that coming images overwrite; of its small arrays, everything.

    They lie where they lie in the book. The room stays from block to block: fresh memory costs more than the copy.
    """

    def __init__(self, book: Book) -> None:
        self._book: Book = book
        self._room: Book = np.zeros_like(book)
        self._first = self._count = 0
        self._code: Callable[..., None] | None = None

    def keep(self, first: int, count: int) -> None:
        """`count` images come, the first of which is the stream's `first`."""
        self._first, self._count = first, count
        self._copy(self._book, self._room)

    def put_back(self) -> None:
        """Make everything what it was."""
        self._copy(self._room, self._book)

    def _copy(self, source: Book, target: Book) -> None:
        arguments = source, target, self._first, self._count
        self._code = self._code or code_for(_copy_judged, *arguments)
        self._code(*arguments)


@njit(nogil=True)
def _copy_judged(source: Book, target: Book, first: int, count: int) -> None:
    """All that judging `count` images changes, from a book as it was before them."""
    old, new = source[0], target[0]
    judged, learned = old["counts"][JUDGED], old["counts"][LEARNED]
    _copy_ring(old["window"], new["window"], judged, count)
    _copy_ring(old["record"], new["record"], learned, count)
    _copy_ring(old["origins"], new["origins"], learned + old["by_verdict"][QUOTA], count)
    _copy_ring(old["verdicts"], new["verdicts"], first, count)
    _copy_ring(old["details"], new["details"], first, count)
    new["medians"][:] = old["medians"]
    new["counts"][:] = old["counts"]
    new["by_verdict"][:] = old["by_verdict"]


@njit(nogil=True)
def _copy_ring(source: NDArray[Any], target: NDArray[Any], first: int, count: int) -> None:
    """Rows of a ring from the first on, around its end."""
    for k in range(first, first + min(count, len(source))):
        target[k % len(source)] = source[k % len(source)]
