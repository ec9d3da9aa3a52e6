"""Features that someone else has made, as arrays, into a store."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.manifest import StoreInfo
from trimtab.features.writer import FeatureWriter

ROWS_AT_A_TIME = 1024
SHORTEST = 1e-6  # the engine's own limit; a constant is no reason to load the engine


class ArrayRows(ABC):
    """Rows that lie in several arrays: (N, V, d), read by slices."""

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """(n, V, d)."""


def write_arrays(
    path: str | Path,
    features: "ArrayLike | ArrayRows",
    labels: ArrayLike | None,
    text: ArrayLike,
    class_names: Sequence[str],
    logit_scale: float = 100.0,
    *,
    ids: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
    dataset: str = "imported",
    encoder: str = "imported",
    encoder_fingerprint: str | None = None,
    dtype: str = "float16",
    shard_images: int | None = None,
) -> None:
    """Write (N, d) or (N, V, d) `features` and (C, d) `text` as a store; rows are made unit, labels may be None.

    `features` may be a memory map: it is read in blocks. Without an `encoder_fingerprint` the features' own hash is
    taken, so that the same arrays make the same store and other arrays a different one.
    """
    given = isinstance(features, np.ndarray | ArrayRows)
    rows: NDArray[Any] | ArrayRows = features if given else arguments.numbers("features", features)  # type: ignore[assignment]
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        rows = rows[:, None, :]
    if len(rows.shape) != 3 or 0 in rows.shape or rows.dtype.kind != "f":
        raise TrimtabError(
            f"features must be numbers of shape (images, d) or (images, views, d), not {rows.dtype} {rows.shape}."
        )
    images, views, dim = rows.shape
    names = arguments.names("class_names", class_names)
    prototypes = _unit_text(arguments.numbers("text", text), len(names), dim)
    found = _checked_hash(rows)  # every row, before the folder exists: what is refused leaves nothing behind
    info = StoreInfo(
        dataset=arguments.text("dataset", dataset),
        encoder=arguments.text("encoder", encoder),
        encoder_fingerprint=found if encoder_fingerprint is None else encoder_fingerprint,
        preprocessing={"made": "elsewhere"},
        prompts="made elsewhere",
        seed=0,
        views=views,
        dim=dim,
        dtype=dtype,
        logit_scale=arguments.positive("logit_scale", logit_scale),
        class_names=names,
        labels=(-1,) * images if labels is None else tuple(arguments.class_indices("labels", labels).tolist()),
        ids=tuple(map(str, range(images))) if ids is None else _one_per_image("ids", ids),
        domains=None if domains is None else _one_per_image("domains", domains),
    )
    if len(info.ids) != images:
        raise TrimtabError(f"There are {images} rows of features but {len(info.ids)} ids or labels.")
    with FeatureWriter(path, info, prototypes, shard_images=shard_images) as writer:
        for start in range(writer.next_image, images, ROWS_AT_A_TIME):
            block = _unit(rows[start : start + ROWS_AT_A_TIME], start)
            writer.add(range(start, start + len(block)), block, [])
        writer.finish()


def _one_per_image(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Names of images or of styles; numbers will do, as some sets have nothing else."""
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise TrimtabError(f"{name} must be a list with one name per image, not {arguments.shown(given)}.")
    return tuple(map(str, values))


def _unit_text(text: NDArray[Any], classes: int, dim: int) -> NDArray[np.float32]:
    if text.shape == (dim, classes) and classes != dim:
        raise TrimtabError(
            f"text has the shape {text.shape}, one column per class; give it transposed, {text.T.shape}."
        )
    if text.shape != (classes, dim):
        raise TrimtabError(f"text must have the shape (classes, d) = ({classes}, {dim}), not {text.shape}.")
    return _unit(text[:, None, :], 0, "text")[:, 0]


def _unit(rows: NDArray[Any], first: int, what: str = "features") -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        block = rows.astype(np.float32)
        lengths = np.linalg.norm(block, axis=2, keepdims=True)
    wrong = ~(np.isfinite(lengths) & (lengths > SHORTEST))
    if wrong.any():
        row, view, _ = np.argwhere(wrong)[0]
        raise TrimtabError(f"Row {first + row} (view {view}) of {what} is zero or not finite; leave it out.")
    unit: NDArray[np.float32] = block / lengths
    return unit


def _checked_hash(rows: "NDArray[Any] | ArrayRows") -> str:
    """A hash of all rows, after each was found to have a direction."""
    digest = hashlib.sha256(f"{rows.dtype} {rows.shape}".encode())
    for start in range(0, rows.shape[0], ROWS_AT_A_TIME):
        block = rows[start : start + ROWS_AT_A_TIME]
        _unit(block, start)
        digest.update(np.ascontiguousarray(block).tobytes())
    return digest.hexdigest()
