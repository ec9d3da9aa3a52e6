"""The root of a covariance's inverse, in single precision."""

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.few_classes import SMALL_TABLE, pieces
from trimtab.engine.kernels import VECTORIZE

SMALL = 64  # rows that one compiled loop takes at once


def inverse_root(matrix: Array) -> Array:
    """The lower triangle R with R'R the inverse of a covariance, by halves: nearly all of it is matrix products.

    Cholesky's factor L and its inverse R grow together: below the first half, L = A R', and the second half is the root
    of what L does not explain. NumPy's `cholesky` and `inv` one after the other take twice as long.
    """
    root = np.zeros_like(matrix)
    _by_halves(matrix, root)
    return root


def _by_halves(matrix: Array, root: Array) -> None:
    size = len(matrix)
    if size <= SMALL:
        _at_once(matrix, root, np.empty((size, size), np.float32))
        return
    half = size // 2
    first, second = root[:half, :half], root[half:, half:]
    _by_halves(matrix[:half, :half], first)
    below = matrix[half:, :half] @ first.T
    _by_halves(matrix[half:, half:] - below @ below.T, second)
    np.negative(second @ (below @ first), out=root[half:, :half])


def times_inverse(rows: Array, root: Array) -> Array:
    """(C, n): a few rows times R'R, as two products that leave out what is zero in the triangle."""
    half, whole = np.empty_like(rows), np.empty_like(rows)
    for piece in pieces(len(root), max(SMALL_TABLE // len(rows), 1)):
        np.matmul(rows[:, : piece.stop], root[piece, : piece.stop].T, out=half[:, piece])
    for piece in pieces(len(root), max(SMALL_TABLE // len(rows), 1)):
        np.matmul(half[:, piece.start :], root[piece.start :, piece], out=whole[:, piece])
    return whole


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _at_once(matrix: Array, root: Array, lower: Array) -> None:
    """Write the root of a small matrix, whose place is zero; `lower` is room for Cholesky's factor."""
    for i in range(len(matrix)):
        row = lower[i]
        for k in range(i):
            above = lower[k]
            explained = np.float32(0)
            for m in range(k):
                explained += row[m] * above[m]
            row[k] = (matrix[i, k] - explained) / above[k]
        explained = np.float32(0)
        for m in range(i):
            explained += row[m] * row[m]
        row[i] = np.sqrt(max(matrix[i, i] - explained, np.float32(1e-30)))
    for i in range(len(matrix)):
        out, share = root[i], 1 / lower[i, i]
        for k in range(i):
            factor, above = lower[i, k] * share, root[k]
            for c in range(k + 1):
                out[c] -= factor * above[c]
        out[i] = share
