"""FeatureWriter: a store that grows and survives a kill at any point.

While a store is unfinished its folder holds text.npy, unfinished.json (what is being made), shards, and progress.json
(how far it is). The next writer of the same store continues from there. `finish` writes manifest.json, the sign of a
finished store, and the other two disappear.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.beginning import begin, check_text
from trimtab.features.manifest import MANIFEST, UNFINISHED, Manifest, StoreInfo, write_manifest
from trimtab.features.progress import PROGRESS, Progress
from trimtab.features.records import refuse_records
from trimtab.features.sealing import checked_rows, sealed, write_errors
from trimtab.files import FolderLock, sweep
from trimtab.storage import LocalFolder, is_url


class FeatureWriter:
    """Writes the features of the images that `info` lists, in that order; use it in a `with` block.

    `next_image` says where to begin: 0 for a new store, further on in an unfinished one, N in a finished one.
    """

    def __init__(
        self, path: str | Path, info: StoreInfo, text: NDArray[np.float32], *, shard_images: int | None = None
    ) -> None:
        if is_url(path):
            raise TrimtabError(f"Features that are made already go into a folder of this machine first, not to {path}.")
        self.path = arguments.place("path", path)
        self._info = info
        self._folder = LocalFolder(self.path)
        check_text(info, text)  # whatever is wrong with the texts is said before there is a folder
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path)
        except OSError as error:
            raise TrimtabError(f"The folder {self.path} cannot be written: {error.strerror}.") from None
        try:
            with write_errors(self._folder):
                self._begun = begin(self._folder, info, text, shard_images)
            refuse_records(self._folder)
            self._progress = Progress(self.path, info, self._begun.layout)
            if self._begun.finished:
                self._progress.images = len(info.ids)
            else:
                self._progress.resume()
            sweep(self.path)  # we hold the lock, so whoever wrote them is gone; and the folder is ours
        except BaseException:
            self._lock.release(remove=True)
            raise

    @property
    def next_image(self) -> int:
        """The first image whose features are not there yet."""
        return self._progress.images

    @property
    def images_per_shard(self) -> int:
        """How many images make a file."""
        return self._begun.layout.images_per_shard

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Save what was added, so that Ctrl-C costs nothing."""
        try:
            with suppress(OSError) if kind else write_errors(self._folder):  # a full disk is being reported already
                self._progress.save()
        finally:
            self._lock.release()

    def add(
        self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any], unreadable: Sequence[tuple[int, str]]
    ) -> None:
        """The next images: `features` (n, V, d) of those at `indices`, and (index, reason) of those without any."""
        first, count = self.next_image, len(indices) + len(unreadable)
        rows = self._checked(indices, features)
        found = {int(index): row for index, row in zip(indices, rows, strict=True)} | dict(unreadable)
        if sorted(found) != list(range(first, first + count)):
            raise ValueError(f"images must be added in order, from {first} on")
        with write_errors(self._folder):
            for position in range(first, first + count):
                self._progress.take(found[position])
            self._progress.save_sometimes()

    def finish(self) -> None:
        """Seal the store: from here on it can be opened."""
        if self.next_image < len(self._info.ids):
            raise ValueError(f"only {self.next_image} of {len(self._info.ids)} images were added")
        with write_errors(self._folder):
            self._progress.save()
            if not (self.path / MANIFEST).exists():
                write_manifest(self._folder, MANIFEST, self._manifest())
            for leftover in (PROGRESS, UNFINISHED):
                (self.path / leftover).unlink(missing_ok=True)
        self._lock.release(remove=True)

    def _manifest(self) -> Manifest:
        shards = enumerate(self._progress.shards)
        return sealed(self._folder, self._info, self._begun, dict(shards), self._progress.skipped)

    def _checked(self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any]) -> NDArray[Any]:
        """The rows as they will be stored."""
        expected = (len(indices), self._info.views, self._info.dim)
        return checked_rows(features, expected, self._info.dtype, [self._info.ids[int(i)] for i in indices])
