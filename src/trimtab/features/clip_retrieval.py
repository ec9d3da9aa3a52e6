"""Folders of clip-retrieval, as they are: img_emb_*.npy, and beside them metadata_*.parquet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.features.arrays import ArrayRows, write_arrays
from trimtab.features.store import FeatureStore
from trimtab.prompts import templates_for, text_prototypes

EMBEDDINGS, METADATA = "img_emb", "metadata"
NAMES = ("image_path", "key", "url")  # the columns that may name an image, the best first


def is_clip_retrieval(place: object) -> bool:
    """Whether a folder looks like one of `clip-retrieval inference`."""
    return (
        isinstance(place, str) and "://" not in place and bool(_numbered(Path(place).expanduser(), EMBEDDINGS, "npy"))
    )


def import_clip_retrieval(
    folder: str | Path,
    class_names: Sequence[str],
    encoder: Encoder,
    out: str | Path,
    *,
    templates: str | Sequence[str] | None = None,
    cupl: Mapping[str, Sequence[str]] | Path | str | None = None,
    dtype: str = "float16",
    shard_images: int | None = None,
) -> FeatureStore:
    """Make a store of a folder's image embeddings; `encoder`, which must be the one that made them, adds the texts.

    Images are named by the metadata (image_path, else key, else url), or numbered where there is none. They have no
    labels. Embeddings are read as memory maps, so a folder may be larger than memory.
    """
    place = arguments.place("folder", folder)
    files = _numbered(place, EMBEDDINGS, "npy")
    if not files:
        raise TrimtabError(f"{place} holds no {EMBEDDINGS}_*.npy; give the output folder of clip-retrieval inference.")
    parts = [_embeddings(path) for path in files.values()]
    if parts[0].shape[1] != encoder.dim:
        raise TrimtabError(
            f"The embeddings of {place} have {parts[0].shape[1]} dimensions, those of {encoder.name} {encoder.dim}; "
            "name the encoder that made them with -e."
        )
    text = text_prototypes(encoder, class_names, templates_for(templates or "photo", place.name), cupl)
    write_arrays(
        out,
        JoinedRows(parts),
        None,
        text,
        class_names,
        float(encoder.logit_scale),
        ids=_names(place, {number: len(part) for number, part in zip(files, parts, strict=True)}),
        dataset=place.name,
        encoder=encoder.name,
        dtype=dtype,
        shard_images=shard_images,
    )
    return FeatureStore.open(out)


class JoinedRows(ArrayRows):
    """Arrays of (n, d) rows, one after the other, as (N, 1, d)."""

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self._parts, self._starts = parts, np.cumsum([0, *map(len, parts)])
        self.shape = (int(self._starts[-1]), 1, parts[0].shape[1])
        self.dtype = parts[0].dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        found = [
            part[max(start - first, 0) : stop - first]
            for part, first in zip(self._parts, self._starts.tolist(), strict=False)
            if first < stop and start < first + len(part)
        ]
        return np.concatenate(found)[:, None, :]


def _embeddings(path: Path) -> NDArray[Any]:
    try:
        rows: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TrimtabError(f"{path} cannot be read ({error}).") from None
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise TrimtabError(f"{path} holds {rows.dtype} {rows.shape}, not embeddings of shape (images, d).")
    return rows


def _names(place: Path, rows: Mapping[int, int]) -> list[str] | None:
    files = _numbered(place, METADATA, "parquet")
    if not files:
        return None
    return [name for number, count in rows.items() for name in _names_in(place, files.get(number), count)]


def _names_in(place: Path, path: Path | None, count: int) -> Iterator[str]:
    if path is None:
        raise TrimtabError(f"{place} holds {METADATA} of some embeddings and not of others; complete it, or remove it.")
    try:
        import pyarrow.parquet
    except ImportError:
        raise TrimtabError(f"{path} needs the package pyarrow; run: pip install 'trimtab[cluster]'") from None
    try:
        known = pyarrow.parquet.read_schema(path).names
        column = next((name for name in NAMES if name in known), None)
        if column is None:
            raise TrimtabError(f"{path} has no column {', '.join(NAMES[:-1])} or {NAMES[-1]} that names the images.")
        found = pyarrow.parquet.read_table(path, columns=[column])[column].to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise TrimtabError(f"{path} cannot be read: {error}.") from None
    if len(found) != count:
        raise TrimtabError(f"{path} names {len(found)} images, but there are {count} embeddings of them.")
    return map(str, found)


def _numbered(place: Path, stem: str, ending: str) -> dict[int, Path]:
    """The files stem_0.ending, stem_1.ending, ... in the folder itself, or in its subfolder `stem`, by number."""
    pattern = re.compile(rf"{stem}_(\d+)\.{ending}")
    for folder in (place / stem, place):
        if folder.is_dir():
            found = {int(m[1]): path for path in folder.iterdir() if (m := pattern.fullmatch(path.name))}
            if found:
                return dict(sorted(found.items()))
    return {}
