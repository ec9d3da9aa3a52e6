"""Products of many images with few classes, by pieces that are multiplied where they lie.

A library copies matrices into an order of its own before it multiplies them. Beside a handful of classes the copy costs
as much as the product. OpenBLAS leaves it out for small products, where it knows AVX-512; so images are taken as many
at a time as count as small there. With ten classes of 320 dimensions both products below take 0.6 of the time that they
take at once; without AVX-512, 1.4 and 1.1 times as long.

Pieces are cut by the shapes alone, so the same arrays give the same bits.
"""

from collections.abc import Iterator

import numpy as np

from trimtab.engine.arrays import Array

FEW = 60  # classes; more are as fast at once
SMALL = 1_000_000  # multiplications in a small product,
SMALL_TABLE = 1200  # and numbers in what comes out of rows times rows
LEAST = 12  # images in a piece; fewer cost more calls than they save


def across(classes: Array, images: Array) -> Array:
    """(C, n): the products of classes (C, d) with images (n, d)."""
    count, dim = classes.shape
    size = min(SMALL_TABLE, SMALL // dim) // count
    if count > FEW or size < LEAST:
        return classes @ images.T
    found: Array = np.empty((count, len(images)), np.float32)
    for piece in pieces(len(images), size):
        np.matmul(classes, images[piece].T, out=found[:, piece])
    return found


def gathered(shares: Array, images: Array) -> Array:
    """(C, d): for each class the sum of the images (n, d) by its shares (C, n)."""
    count, dim = len(shares), images.shape[1]
    size = SMALL // (count * dim)
    if count > FEW or size < LEAST or len(images) <= size:
        return shares @ images
    total, part = np.zeros((count, dim), np.float32), np.empty((count, dim), np.float32)
    for piece in pieces(len(images), size):
        total += np.matmul(shares[:, piece], images[piece], out=part)
    return total


def pieces(images: int, size: int) -> Iterator[slice]:
    """So many images, some at a time."""
    return (slice(first, min(first + size, images)) for first in range(0, images, size))
