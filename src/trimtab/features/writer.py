"""FeatureWriter: a store that grows and survives a kill at any point.

While a store is unfinished its folder holds text.npy, unfinished.json (what is being made), shards, and progress.json
(how far it is). The next writer of the same store continues from there. `finish` writes manifest.json, the sign of a
finished store, and the other two disappear.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.manifest import MANIFEST, TEXT, UNFINISHED, Manifest, StoreInfo, read_manifest, write_manifest
from trimtab.features.progress import PROGRESS, Progress, as_npy
from trimtab.files import FolderLock, sweep, write_whole
from trimtab.task import Task

UNIT_TOLERANCE = 2e-2


class FeatureWriter:
    """Writes the features of the images that `info` lists, in that order; use it in a `with` block.

    `next_image` says where to begin: 0 for a new store, further on in an unfinished one, N in a finished one.
    """

    def __init__(self, path: str | Path, info: StoreInfo, text: NDArray[np.float32]) -> None:
        self.path = arguments.place("path", path)
        self._info = info
        Task(info.class_names, text, info.logit_scale)  # whatever is wrong with the texts is said before hours of work
        if text.shape[1] != info.dim:
            raise TrimtabError(f"The text prototypes have {text.shape[1]} dimensions, the image features {info.dim}.")
        self._text = as_npy(np.ascontiguousarray(text, dtype=np.float32))
        self._text_sha256 = hashlib.sha256(self._text).hexdigest()
        self._progress = Progress(self.path, info)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path)
        except OSError as error:
            raise TrimtabError(f"The folder {self.path} cannot be written: {error.strerror}.") from None
        try:
            with _write_errors(self.path):
                self._start_or_resume()
            sweep(self.path)  # we hold the lock, so whoever wrote them is gone; and the folder is ours
        except BaseException:
            self._lock.release(remove=True)
            raise

    @property
    def next_image(self) -> int:
        """The first image whose features are not there yet."""
        return self._progress.images

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Save what was added, so that Ctrl-C costs nothing."""
        try:
            with suppress(OSError) if kind else _write_errors(self.path):  # a full disk is being reported already
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
        with _write_errors(self.path):
            for position in range(first, first + count):
                self._progress.take(found[position])
            self._progress.save_sometimes()

    def finish(self) -> None:
        """Seal the store: from here on it can be opened."""
        if self.next_image < len(self._info.ids):
            raise ValueError(f"only {self.next_image} of {len(self._info.ids)} images were added")
        with _write_errors(self.path):
            self._progress.save()
            if not (self.path / MANIFEST).exists():
                write_manifest(self.path / MANIFEST, self._manifest())
            for leftover in (PROGRESS, UNFINISHED):
                (self.path / leftover).unlink(missing_ok=True)
        self._lock.release(remove=True)

    def _manifest(self) -> Manifest:
        skipped, ids = self._progress.skipped, self._info.ids
        if len(skipped) == len(ids):
            reason = next(iter(skipped.values()), "the data set is empty.")
            raise TrimtabError(f"None of the {len(ids)} images could be read: {reason}")
        return Manifest(
            info=self._info.without(list(skipped)),
            shards=tuple(shard for shard in self._progress.shards if shard.rows),
            skipped=tuple((ids[position], reason) for position, reason in sorted(skipped.items())),
            text_sha256=self._text_sha256,
        )

    def _start_or_resume(self) -> None:
        if (self.path / MANIFEST).exists():
            self._check_same(read_manifest(self.path / MANIFEST))
            self._progress.images = len(self._info.ids)
        elif (self.path / UNFINISHED).exists():
            self._check_same(read_manifest(self.path / UNFINISHED))
            self._progress.resume()
        else:
            foreign = sorted(entry.name for entry in self.path.iterdir() if not _is_ours(entry.name))
            if foreign:
                raise TrimtabError(
                    f"{self.path} is not empty and not a feature store (it holds {foreign[0]}); choose another folder."
                )
            write_whole(self.path / TEXT, self._text)
            write_manifest(self.path / UNFINISHED, Manifest(self._info, (), (), self._text_sha256))

    def _check_same(self, there: Manifest) -> None:
        dropped = {name for name, _ in there.skipped}
        here = self._info.without([i for i, name in enumerate(self._info.ids) if name in dropped])
        differences = there.info.differences(here)
        explained = ("class names", "encoder fingerprint", "prompts")  # by any of which the texts differ, too
        if there.text_sha256 != self._text_sha256 and not any(found.startswith(explained) for found in differences):
            differences.append("text prototypes")
        if differences:
            raise TrimtabError(
                f"{self.path} already holds other features: it differs in {', '.join(differences)}; "
                "choose another folder, or delete it first."
            )

    def _checked(self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any]) -> NDArray[Any]:
        """The rows as they will be stored, finite and of length 1: `FeatureStore.rows_checked` rests on this."""
        expected = (len(indices), self._info.views, self._info.dim)
        if features.shape != expected:
            raise TrimtabError(f"The features of {expected[0]} images have the shape {features.shape}, not {expected}.")
        with np.errstate(over="ignore", invalid="ignore"):
            rows = features.astype(self._info.dtype)
            lengths = np.linalg.norm(rows.astype(np.float32), axis=2)
        wrong = ~(np.abs(lengths - 1) <= UNIT_TOLERANCE)  # also true of NaN
        if wrong.any():
            row, view = np.argwhere(wrong)[0]
            name = self._info.ids[int(indices[row])]
            raise TrimtabError(
                f"The feature of {name} (view {view}) has length {lengths[row, view]:.4g}, not 1; "
                "the encoder must give finite unit vectors (try fp32 if it runs in fp16)."
            )
        return rows


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk and the like into one sentence."""
    try:
        yield
    except OSError as error:
        raise TrimtabError(
            f"The features cannot be written to {folder}: {error.strerror or error}; "
            "what is finished is kept, run the same command again to continue."
        ) from None


def _is_ours(name: str) -> bool:
    """What a kill before unfinished.json may leave behind."""
    return name == TEXT or name.startswith(".")
