"""What every road into a store has in common: rows that are checked, and a manifest that seals them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.beginning import Begun
from trimtab.features.columns import with_sidecars
from trimtab.features.manifest import Manifest, StoreInfo
from trimtab.features.shard import Shard
from trimtab.storage import Folder

UNIT_TOLERANCE = 2e-2


def checked_rows(
    features: NDArray[Any], expected: tuple[int, int, int], dtype: str, names: Sequence[str]
) -> NDArray[Any]:
    """The rows as they will be stored, finite and of length 1: `FeatureStore.rows_checked` rests on this."""
    if features.shape != expected:
        raise TrimtabError(f"The features of {expected[0]} images have the shape {features.shape}, not {expected}.")
    with np.errstate(over="ignore", invalid="ignore"):
        rows = features.astype(dtype)
        lengths = np.linalg.norm(rows.astype(np.float32), axis=2)
    wrong = ~(np.abs(lengths - 1) <= UNIT_TOLERANCE)  # also true of NaN
    if wrong.any():
        row, view = np.argwhere(wrong)[0]
        raise TrimtabError(
            f"The feature of {names[row]} (view {view}) has length {lengths[row, view]:.4g}, not 1; "
            "the encoder must give finite unit vectors (try fp32 if it runs in fp16)."
        )
    return rows


def sealed(
    folder: Folder, info: StoreInfo, begun: Begun, shards: Mapping[int, Shard], skipped: Mapping[int, str]
) -> Manifest:
    """The manifest of a store whose shards, by their number, are all there; missing sidecars are written."""
    ids = info.ids
    if len(skipped) == len(ids):
        reason = next(iter(skipped.values()), "the data set is empty.")
        raise TrimtabError(f"None of the {len(ids)} images could be read: {reason}")
    listed = [(number, shard) for number, shard in sorted(shards.items()) if shard.rows]
    if begun.layout.version == 2:
        for place, (number, shard) in enumerate(listed):
            if not shard.ids_sha256:
                kept = [i for i in begun.layout.span(number, len(ids)) if i not in skipped]
                listed[place] = number, with_sidecars(folder, shard, kept, info)
    return Manifest(
        info=info.without(list(skipped)) if skipped else info,
        shards=tuple(shard for _, shard in listed),
        skipped=tuple((ids[position], reason) for position, reason in sorted(skipped.items())),
        text_sha256=begun.text_sha256,
        images_per_shard=begun.layout.stated,
    )


@contextmanager
def write_errors(folder: Folder) -> Iterator[None]:
    """Turn a full disk and the like into one sentence."""
    try:
        yield
    except OSError as error:
        raise TrimtabError(
            f"The features cannot be written to {folder}: {error.strerror or error}; "
            "what is finished is kept, run the same command again to continue."
        ) from None
