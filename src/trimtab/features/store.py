"""FeatureStore: features encoded once, then memory-mapped for ever."""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.features.manifest import TEXT, Manifest, Shard, StoreInfo, read_manifest
from trimtab.files import sha256_of
from trimtab.task import Task

OPEN_SHARDS = 16  # mapped at once: bounds both the open files and the memory that a long walk keeps

Rows = NDArray[np.floating[Any]]
Selection = slice | Sequence[int] | NDArray[np.integer[Any]] | NDArray[np.bool_]


class FeatureStore:
    """N images' features, (N, V, d), with labels, names, text prototypes and where all of it comes from."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.path = folder
        self._manifest = manifest
        self.features = ShardedRows(folder, manifest)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: Encoder | str | None = None,
        class_names: Sequence[str] | None = None,
        verify: bool = False,
    ) -> "FeatureStore":
        """Open a finished store.

        `encoder` (or its fingerprint) and `class_names`, if given, must be those of the store. Missing and truncated
        files are always noticed; `verify` also reads everything and compares checksums.
        """
        folder = Path(path).expanduser()
        store = cls(folder, read_manifest(folder))
        store._check_files()
        if encoder is not None:
            store._check_encoder(encoder)
        if class_names is not None:
            store._check_classes(class_names)
        if verify:
            store.verify()
        return store

    @classmethod
    def from_arrays(
        cls,
        path: str | Path,
        features: ArrayLike,
        labels: ArrayLike | None,
        text: ArrayLike,
        class_names: Sequence[str],
        logit_scale: float = 100.0,
        **details: Any,
    ) -> "FeatureStore":
        """Write a store from arrays made elsewhere; see `trimtab.features.from_arrays`."""
        from trimtab.features.importing import from_arrays

        return from_arrays(path, features, labels, text, class_names, logit_scale, **details)

    def __len__(self) -> int:
        """The number of images, N."""
        return len(self.info.ids)

    def __repr__(self) -> str:
        return (
            f"FeatureStore({str(self.path)!r}: {self.info.dataset}, {len(self)} images, {self.views} views, "
            f"{len(self.class_names)} classes, {self.info.encoder}, {self.dim} dimensions, {self.info.dtype})"
        )

    @property
    def info(self) -> StoreInfo:
        """Everything that the store says about itself."""
        return self._manifest.info

    @property
    def class_names(self) -> tuple[str, ...]:
        """The C class names, in label order."""
        return self.info.class_names

    @property
    def views(self) -> int:
        """The number of views of each image, V."""
        return self.info.views

    @property
    def dim(self) -> int:
        """The number of feature dimensions, d."""
        return self.info.dim

    @property
    def ids(self) -> tuple[str, ...]:
        """(N,) names of the images: paths, mostly."""
        return self.info.ids

    @property
    def domains(self) -> tuple[str, ...] | None:
        """(N,) names of the images' styles, where the data set has them."""
        return self.info.domains

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(id, reason) of the images that could not be read and have no row."""
        return self._manifest.skipped

    @property
    def fingerprint(self) -> str:
        """A hash of the features and of all that is said about them."""
        return self._manifest.checksum

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """(N,) class indices, -1 where unknown."""
        labels = np.array(self.info.labels, dtype=np.int64)
        labels.setflags(write=False)
        return labels

    @cached_property
    def text_prototypes(self) -> NDArray[np.float32]:
        """(C, d) unit rows."""
        text: NDArray[np.float32] = np.load(self.path / TEXT, allow_pickle=False)
        return text

    def task(self) -> Task:
        """The task that the features are for."""
        return Task(self.class_names, self.text_prototypes, self.info.logit_scale)

    def rows(self, selection: Selection) -> Rows:
        """(n, V, d): the features of some images, as stored."""
        return self.features.take(selection)

    def blocks(self, size: int = 1024) -> Iterator[Rows]:
        """All features in order, at most `size` images at a time."""
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size))

    def verify(self) -> None:
        """Read every byte and compare it with the checksums; refuse at the first difference."""
        for shard in self._manifest.shards:
            if sha256_of(self.path / shard.file) != shard.sha256:
                raise self._damaged(self.path / shard.file, "was changed after it was written")

    def _check_files(self) -> None:
        for shard in self._manifest.shards:
            path = self.path / shard.file
            found = path.stat().st_size if path.is_file() else None
            if found != shard.size:
                what = "is missing" if found is None else f"is truncated or changed ({found:,} of {shard.size:,} bytes)"
                raise self._damaged(path, what)
        text = self.path / TEXT
        if not text.is_file() or sha256_of(text) != self._manifest.text_sha256:
            raise self._damaged(text, "is missing or was changed after it was written")

    def _damaged(self, path: Path, what: str) -> TrimtabError:
        return TrimtabError(f"{path} {what}; restore it, or delete {self.path} and encode again.")

    def _check_encoder(self, encoder: Encoder | str) -> None:
        fingerprint, name = (encoder, "another") if isinstance(encoder, str) else (encoder.fingerprint, encoder.name)
        if fingerprint != self.info.encoder_fingerprint:
            raise TrimtabError(
                f"{self.path} was encoded by {self.info.encoder} with fingerprint "
                f"{self.info.encoder_fingerprint[:12]}, not by {name} with {fingerprint[:12]}; "
                "use the same encoder, or encode again."
            )

    def _check_classes(self, class_names: Sequence[str]) -> None:
        ours, theirs = list(self.class_names), list(class_names)
        if ours == theirs:
            return
        if sorted(ours) == sorted(theirs):
            raise TrimtabError(f"{self.path} has the same classes in another order; labels would be wrong.")
        first = next((name for name in theirs if name not in ours), None) or next(n for n in ours if n not in theirs)
        raise TrimtabError(
            f"{self.path} has {len(ours)} classes, not the {len(theirs)} given; {first!r} is only in one of the lists."
        )


class ShardedRows:
    """An array-like (N, V, d) over the shards of a store; what is not asked for is not read."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._shards = folder, manifest.shards
        self._starts = np.cumsum([0, *(shard.rows for shard in manifest.shards)])
        self._map = lru_cache(OPEN_SHARDS)(self._map_shard)
        self.shape = (int(self._starts[-1]), manifest.info.views, manifest.info.dim)
        self.dtype = np.dtype(manifest.info.dtype)
        self.ndim = 3

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, selection: int | Selection) -> Rows:
        if isinstance(selection, (int, np.integer)):
            only: Rows = self.take([int(selection)])[0]
            return only
        return self.take(selection)

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Rows:
        """All of it in memory: for small stores."""
        if copy is False:
            raise ValueError("a feature store can be turned into an array only by copying")
        return self.take(slice(None)).astype(dtype or self.dtype, copy=False)

    def take(self, selection: Selection) -> Rows:
        """(n, V, d): a copy of the chosen rows, in the order asked for."""
        chosen = np.arange(len(self))[selection]  # NumPy's own rules for slices, masks, negatives and errors
        taken: Rows = np.empty((len(chosen), *self.shape[1:]), dtype=self.dtype)
        shards = np.searchsorted(self._starts, chosen, side="right") - 1
        for shard in np.unique(shards):
            here = np.flatnonzero(shards == shard)
            taken[here] = self._map(int(shard))[chosen[here] - self._starts[shard]]
        return taken

    def _map_shard(self, number: int) -> Rows:
        shard: Shard = self._shards[number]
        path = self._folder / shard.file
        try:
            rows: Rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise TrimtabError(
                f"{path} cannot be read ({error}); restore it, or delete {self._folder} and encode again."
            ) from None
        if rows.shape != (shard.rows, *self.shape[1:]) or rows.dtype != self.dtype:
            raise TrimtabError(f"{path} holds {rows.dtype} {rows.shape}, which is not what the manifest says.")
        return rows
