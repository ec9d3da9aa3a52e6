"""Features that someone else has made, as arrays, into a store."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.errors import TrimtabError
from trimtab.features.manifest import StoreInfo
from trimtab.features.writer import FeatureWriter

ROWS_AT_A_TIME = 1024
SHORTEST = 1e-6  # the engine's own limit; a constant is no reason to load the engine


def write_arrays(
    path: str | Path,
    features: ArrayLike,
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
) -> None:
    """Write (N, d) or (N, V, d) `features` and (C, d) `text` as a store; rows are made unit, labels may be None.

    `features` may be a memory map: it is read in blocks. Without an `encoder_fingerprint` the features' own hash is
    taken, so that the same arrays make the same store and other arrays a different one.
    """
    rows = features if isinstance(features, np.ndarray) else np.asarray(features)
    if rows.ndim == 2:
        rows = rows[:, None, :]
    if rows.ndim != 3 or 0 in rows.shape or rows.dtype.kind != "f":
        raise TrimtabError(
            f"features must be numbers of shape (images, d) or (images, views, d), not {rows.dtype} {rows.shape}."
        )
    images, views, dim = rows.shape
    prototypes = _unit_text(np.asarray(text), len(class_names), dim)
    info = StoreInfo(
        dataset=dataset,
        encoder=encoder,
        encoder_fingerprint=encoder_fingerprint or _hash(rows),
        preprocessing={"made": "elsewhere"},
        prompts="made elsewhere",
        seed=0,
        views=views,
        dim=dim,
        dtype=dtype,
        logit_scale=float(logit_scale),
        class_names=tuple(str(name) for name in class_names),
        labels=tuple(int(label) for label in np.asarray(labels)) if labels is not None else (-1,) * images,
        ids=tuple(str(name) for name in ids) if ids is not None else tuple(str(i) for i in range(images)),
        domains=tuple(str(name) for name in domains) if domains is not None else None,
    )
    if len(info.ids) != images:
        raise TrimtabError(f"There are {images} rows of features but {len(info.ids)} ids or labels.")
    with FeatureWriter(path, info, prototypes) as writer:
        for start in range(writer.next_image, images, ROWS_AT_A_TIME):
            block = _unit(rows[start : start + ROWS_AT_A_TIME], start)
            writer.add(range(start, start + len(block)), block, [])
        writer.finish()


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


def _hash(rows: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{rows.dtype} {rows.shape}".encode())
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        digest.update(np.ascontiguousarray(rows[start : start + ROWS_AT_A_TIME]).tobytes())
    return digest.hexdigest()
