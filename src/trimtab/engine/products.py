"""The products of a single image: what a step costs where classes are many.

With no block to share them, every row is read once for one number, so memory is what counts. Rows are read one after
the other, as a processor fetches ahead best, in two streams far apart, so that the image is read half as often: a sixth
faster than one stream. Neighboring rows at once, as in a library's product of a matrix with a vector, take two to four
times as long, and skipping rows costs more than it saves: so what is not needed must not lie there (pool.py).

One core alone does not use all that memory gives. So where rows are many, they are cut into stretches, and a helping
thread takes every stretch that it comes to before the caller does. If the other cores are busy it comes to none, and
nobody waits for it. Which thread reads a stretch changes no bit.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE

MANY = 4_000_000  # numbers in all rows from which on a second thread helps: waking it takes 50 microseconds
STRETCH = 500_000  # numbers that one of the two takes at a time


@njit(fastmath=VECTORIZE, nogil=True)
def dot(first: Array, second: Array) -> np.float32:
    """Their inner product, as one vectorized loop."""
    total = np.float32(0)
    for k in range(len(first)):
        total += first[k] * second[k]
    return total


@njit(nogil=True)
def row_products(rows: Array, image: Array, out: Array) -> None:
    """(n, d), (d,) -> (n,)."""
    for row in range(len(rows)):
        out[row] = dot(rows[row], image)


@njit(fastmath=VECTORIZE, nogil=True)
def two_dots(first: Array, second: Array, image: Array) -> tuple[np.float32, np.float32]:
    """The inner products of two rows with an image, which is read once."""
    one, two = np.float32(0), np.float32(0)
    for k in range(len(image)):
        one += first[k] * image[k]
        two += second[k] * image[k]
    return one, two


@njit(nogil=True)
def pair_products(rows: Array, image: Array, out: Array, first: int, last: int) -> None:
    """(n, d), (d,) -> (n,) for a part of the rows: first // 2 to last // 2, and as many half of all rows later."""
    half = len(rows) // 2
    for row in range(first // 2, last // 2):
        out[row], out[row + half] = two_dots(rows[row], rows[row + half], image)
    if last == len(rows) and last % 2:
        out[last - 1] = dot(rows[last - 1], image)


def worth_sharing(rows: Array) -> bool:
    """Whether two threads are faster than one: rows are many, and there is a core and leave for a second thread."""
    return rows.size >= MANY and _has_help()


def shared_pair_products(rows: Array, image: Array, out: Array) -> None:
    """`pair_products` of all rows, by two threads."""
    size = max(2, STRETCH // rows.shape[1] // 2 * 2)
    starts = iter(range(0, len(rows), size))  # what one thread has taken, the other does not see

    def take_stretches() -> None:
        for start in starts:
            pair_products(rows, image, out, start, min(start + size, len(rows)))

    help_comes = _helper().submit(take_stretches)
    take_stretches()
    if not help_comes.cancel():
        help_comes.result()


@cache
def _helper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "trimtab-products")


if hasattr(os, "register_at_fork"):  # threads do not live on in a child: it needs one of its own
    os.register_at_fork(after_in_child=_helper.cache_clear)


@cache
def _has_help() -> bool:
    """Whether this process may use a second core; who limits a library's threads to one means these, too."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))
    return cores > 1 and "1" not in limits
