"""Features as users bring them, checked and made unit before anything is written."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.products import dot
from trimtab.errors import TrimtabError

CHECKED_AT_ONCE = 1024  # images
SHORTEST = 1e-6  # a feature shorter than this has no direction worth trusting


class FeatureRows(Protocol):
    """Anything that has a shape (N, V, d) or (N, d) and can be sliced: an array, a memory map, a feature store.

    One that has checked its rows when they were written (finite, none of length zero) may say so with a true attribute
    `rows_checked`; it is then not read twice.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, V, d) or (N, d)."""

    def __getitem__(self, rows: slice, /) -> Any:
        """Some of the rows."""


def one_image(views: ArrayLike, dim: int) -> Array:
    """(d,) or (V, d) -> (1, V, d) unit rows."""
    array = arguments.numbers("features", views)
    if array.ndim not in (1, 2):
        raise TrimtabError(f"One image's features must have the shape (d,) or (views, d), not {array.shape}.")
    _check_shape(array.shape[-2:], dim)
    return _unit(array.reshape(1, -1, dim), first=0)


def stream_rows(features: "FeatureRows | ArrayLike") -> Any:
    """What has a shape and can be sliced as it is, so that a store is not read at once; all else as an array."""
    return features if hasattr(features, "shape") else arguments.numbers("features", features)


def stream_shape(features: FeatureRows, dim: int) -> tuple[int, int]:
    """(images, views) of a stream's features, after checking that it is one."""
    shape = getattr(features, "shape", None)
    if not isinstance(shape, tuple):
        raise TrimtabError(f"features must be an array or a feature store, not {arguments.shown(features)}.")
    if len(shape) not in (2, 3):
        raise TrimtabError(f"A stream's features must have the shape (images, d) or (images, views, d), not {shape}.")
    _check_shape(shape[1:], dim)
    return shape[0], shape[1] if len(shape) == 3 else 1


def refuse_bad_rows(features: FeatureRows, dim: int) -> None:
    """Read the whole stream once and refuse NaN, infinity and zero vectors, unless its source has done so."""
    if getattr(features, "rows_checked", False):
        return
    images, views = stream_shape(features, dim)
    for first in range(0, images, CHECKED_AT_ONCE):
        rows = arguments.numbers("features", features[first : first + CHECKED_AT_ONCE])
        readable = rows.dtype == np.float32 and rows.flags.c_contiguous
        if not readable or first_bad_row(rows.reshape(-1, dim), np.float32(SHORTEST)) >= 0:
            _unit(rows.reshape(len(rows), views, dim), first)


def blocks(features: FeatureRows, dim: int, size: int, head: int = 0) -> Iterator[Array]:
    """The stream in blocks (B, V, d) of unit rows; each is written over by the next.

    The first has `head` images, if that is not 0, so that the others begin where somebody wants them to.
    """
    images, views = stream_shape(features, dim)
    arguments.whole("block", size, least=1)
    room: Array = np.empty((min(size, images), views, dim), np.float32)  # fresh memory costs more than the work
    first, last = 0, head or size
    while first < images:
        rows = arguments.numbers("features", features[first:last])
        yield _unit(rows.reshape(len(rows), views, dim), first, room[: len(rows)])
        first, last = last, last + size


def _check_shape(shape: tuple[int, ...], dim: int) -> None:
    if shape[-1] != dim:
        raise TrimtabError(
            f"The features have {shape[-1]} dimensions but the text prototypes have {dim}; "
            "encode images and texts with the same encoder."
        )
    if len(shape) == 2 and shape[0] < 1:
        raise TrimtabError("An image needs at least one view; the features hold none.")


def _unit(rows: np.ndarray[Any, Any], first: int, out: Array | None = None) -> Array:
    """Rows of length 1 in float32, in `out` or a new array. NaN, infinity and zero vectors are refused."""
    given = np.ascontiguousarray(rows if rows.dtype == np.float32 else _to_float32(rows))
    unit = np.empty_like(given) if out is None else out  # a copy: the caller's array is never changed or kept
    dim = given.shape[-1]
    bad = _make_unit(given.reshape(-1, dim), np.float32(SHORTEST), unit.reshape(-1, dim))
    if bad >= 0:
        image, view = divmod(bad, unit.shape[1])
        what = "is a zero vector" if np.abs(given[image, view]).max() <= SHORTEST else "holds NaN or infinity"
        raise TrimtabError(f"View {view} of image {first + image} {what}; remove the image or encode it again.")
    return unit


def _to_float32(rows: np.ndarray[Any, Any]) -> Array:
    with np.errstate(over="ignore"):  # too large for float32 becomes infinity, which is refused
        return rows.astype(np.float32)


@njit(nogil=True)
def first_bad_row(rows: Array, shortest: np.float32) -> int:
    """The first row whose length is no number, or none to speak of; -1: all are fine."""
    for n in range(len(rows)):
        if not (shortest < np.sqrt(dot(rows[n], rows[n])) < np.inf):
            return n
    return -1


@njit(nogil=True, error_model="numpy")
def _make_unit(rows: Array, shortest: np.float32, out: Array) -> int:
    """Every row at length 1, up to the first whose length is no number, or none to speak of: which, or -1."""
    for n in range(len(rows)):
        row, unit = rows[n], out[n]
        length = np.sqrt(dot(row, row))
        if not (shortest < length < np.inf):
            return n
        for k in range(len(row)):
            unit[k] = row[k] / length
    return -1
