"""FeatureStore: features encoded once, then memory-mapped forever."""

import io
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.arrays import write_arrays
from trimtab.features.columns import Column, sums_of
from trimtab.features.contexts import context_of
from trimtab.features.manifest import MANIFEST, TEXT, UNFINISHED, Manifest, StoreInfo, read_manifest
from trimtab.features.rows import Rows, Selection, ShardedRows
from trimtab.features.towers import tower_of
from trimtab.storage import Folder, LocalFolder, folder_at
from trimtab.task import Task
from trimtab.text_tower import TextTower

if TYPE_CHECKING:
    from trimtab.encoders.base import Encoder


class FeatureStore:
    """N images' features, (N, V, d), with labels, names, text prototypes and where all of it comes from."""

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
        self.folder = folder
        self.path: Path | str = folder.path if isinstance(folder, LocalFolder) else str(folder)
        self._manifest = manifest
        self.features = ShardedRows(folder, manifest)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: "Encoder | str | None" = None,
        class_names: Sequence[str] | None = None,
        verify: bool = False,
    ) -> "FeatureStore":
        """Open a finished store: a folder, or a URL that fsspec knows (s3://bucket/features, ...).

        `encoder` (or its fingerprint) and `class_names`, if given, must be those of the store. Missing and truncated
        files are always noticed; `verify` also reads everything and compares checksums.
        """
        folder = folder_at("path", path)
        arguments.switch("verify", verify)
        store = cls(folder, _finished(folder))
        store._check_files()
        if encoder is not None:
            store._check_encoder(encoder)
        if class_names is not None:
            store._check_classes(arguments.names("class_names", class_names))
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
        """Write a store from arrays made elsewhere; see `trimtab.features.write_arrays`, also for `details`."""
        write_arrays(path, features, labels, text, class_names, logit_scale, **details)
        return cls.open(path)

    def __len__(self) -> int:
        """The number of images, N."""
        return len(self.info.ids)

    def __repr__(self) -> str:
        views = "1 view" if self.views == 1 else f"{self.views} views"
        return (
            f"FeatureStore({str(self.path)!r}: {self.info.dataset}, {len(self)} images, {views}, "
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

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """(N,) names of the images: paths, mostly."""
        return self.info.ids if isinstance(self.info.ids, tuple) else tuple(self.info.ids)

    @cached_property
    def domains(self) -> tuple[str, ...] | None:
        """(N,) names of the images' styles, where the data set has them."""
        domains = self.info.domains
        return domains if domains is None or isinstance(domains, tuple) else tuple(domains)

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
        listed = self.info.labels
        labels = listed.array() if isinstance(listed, Column) else np.array(listed, dtype=np.int64)
        labels.setflags(write=False)
        return labels

    @cached_property
    def text_prototypes(self) -> NDArray[np.float32]:
        """(C, d) unit rows."""
        text: NDArray[np.float32] = np.load(io.BytesIO(self.folder.read(TEXT)), allow_pickle=False)
        return text

    def task(self, needs: Collection[str] = (), *, text_tower: TextTower | None = None) -> Task:
        """The task that the features are for, with what a method `needs` beyond them.

        A text tower is brought by the encoder that made the store, unless one is given; it starts from the learned
        context that the store was encoded with, or else from "a photo of a".
        """
        pixels = sorted(set(needs) - {"text_tower"})
        if pixels:
            raise TrimtabError(f"{self.path} holds features and no {pixels[0]}, which this method needs.")
        if "text_tower" in needs and text_tower is None:
            text_tower = tower_of(
                self.info.encoder, self.info.encoder_fingerprint, self.class_names, context_of(self.folder)
            )
        return Task(self.class_names, self.text_prototypes, self.info.logit_scale, text_tower)

    @property
    def rows_checked(self) -> bool:
        """Whether the rows were checked when they were written, so that `Stream.run` need not read them twice."""
        return self.features.rows_checked

    def rows(self, selection: Selection) -> Rows:
        """(n, V, d): the features of some images, as stored."""
        try:
            return self.features.take(selection)
        except (IndexError, TypeError, ValueError) as error:
            asked = arguments.shown(selection)
            raise TrimtabError(
                f"selection must be a slice or a list of numbers below {len(self)}, not {asked}: {error}."
            ) from None

    def blocks(self, size: int = 1024) -> Iterator[Rows]:
        """All features in order, at most `size` images at a time."""
        arguments.whole("size", size, least=1)
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size))

    def verify(self) -> None:
        """Read every byte and compare it with the checksums; refuse at the first difference."""
        for shard in self._manifest.shards:
            for file, expected in sums_of(shard).items():
                if self.folder.sha256(file) != expected:
                    raise self._damaged(file, "was changed after it was written")

    def _check_files(self) -> None:
        sizes = self.folder.sizes()
        for shard in self._manifest.shards:
            found = sizes.get(shard.file)
            if found != shard.size:
                what = "is missing" if found is None else f"is truncated or changed ({found:,} of {shard.size:,} bytes)"
                raise self._damaged(shard.file, what)
            missing = next((file for file in sums_of(shard) if file not in sizes), None)
            if missing is not None:
                raise self._damaged(missing, "is missing")
        if sizes.get(TEXT, -1) < 0 or self.folder.sha256(TEXT) != self._manifest.text_sha256:
            raise self._damaged(TEXT, "is missing or was changed after it was written")

    def _damaged(self, file: str, what: str) -> TrimtabError:
        return TrimtabError(f"{self.path}/{file} {what}; restore it, or delete {self.path} and encode again.")

    def _check_encoder(self, encoder: "Encoder | str") -> None:
        named = (getattr(encoder, "fingerprint", None), getattr(encoder, "name", None))
        fingerprint, name = (encoder, "another") if isinstance(encoder, str) else named
        if not isinstance(fingerprint, str):
            raise TrimtabError(f"encoder must be an encoder or a fingerprint, not {arguments.shown(encoder)}.")
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


def _finished(folder: Folder) -> Manifest:
    """The manifest of a finished store, or one sentence on why there is none."""
    sizes = folder.sizes()
    if sizes.get(MANIFEST, -1) >= 0:
        return read_manifest(folder, MANIFEST)
    if sizes.get(UNFINISHED, -1) >= 0:
        raise TrimtabError(
            f"The feature store at {folder} is unfinished; run the same `trimtab encode` again to continue."
        )
    if not sizes and not (isinstance(folder, LocalFolder) and folder.path.is_dir()):
        raise TrimtabError(f"There is no feature store at {folder}; make one with `trimtab encode`.")
    raise TrimtabError(f"{folder} is not a feature store (it has no {MANIFEST}); make one with `trimtab encode`.")
