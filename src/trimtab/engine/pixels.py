"""Images as pixels, for the methods that need more of them than features (`needs = {"pixels"}`).

A stream takes them in the place of features: (N, V, size, size, 3) RGB bytes, view 0 the plain image. They are walked
one image at a time, since a block of pixels would fill the memory.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.engine.inputs import FeatureRows
from trimtab.errors import TrimtabError

Pixels = NDArray[np.uint8]


def one_image(views: ArrayLike, size: int) -> Pixels:
    """(size, size, 3) or (V, size, size, 3) -> (1, V, size, size, 3)."""
    array = np.asarray(views)
    if array.ndim not in (3, 4):
        raise TrimtabError(f"One image's pixels must have the shape (views, {size}, {size}, 3), not {array.shape}.")
    _check(array.reshape(-1, *array.shape[-3:]).shape, size, array.dtype)
    return np.ascontiguousarray(array.reshape(1, -1, size, size, 3))


def stream_shape(features: FeatureRows, size: int) -> tuple[int, int]:
    """(images, views) of a stream's pixels, after checking that they are pixels."""
    shape = features.shape
    if len(shape) != 5:
        raise TrimtabError(
            f"This method needs pixels, (images, views, {size}, {size}, 3) bytes, not an array of the shape {shape}; "
            "a feature store does not hold them."
        )
    _check(shape[1:], size, getattr(features, "dtype", np.dtype(np.uint8)))
    return shape[0], shape[1]


def refuse_bad_rows(features: FeatureRows, size: int) -> None:
    """Bytes are always numbers, so there is nothing to read in advance."""


def blocks(features: FeatureRows, size: int, at_once: int, head: int = 0) -> Iterator[Pixels]:  # noqa: ARG001
    """The stream, one image (1, V, size, size, 3) at a time, whatever size of block is asked for."""
    images, _ = stream_shape(features, size)
    for row in range(images):
        found = np.asarray(features[row : row + 1])
        _check(found.shape[1:], size, found.dtype)
        yield np.ascontiguousarray(found)


def _check(shape: tuple[int, ...], size: int, dtype: Any) -> None:
    """Refuse what is not (V, size, size, 3) bytes with at least one view."""
    if dtype != np.uint8 or shape[1:] != (size, size, 3) or shape[0] < 1:
        raise TrimtabError(
            f"An image must come as RGB bytes of the shape (views, {size}, {size}, 3) with at least one view, "
            f"not as {dtype} {shape}."
        )
