"""FeatureWriter: a store that grows and survives a kill at any point.

While a store is unfinished its folder holds unfinished.json (what is being made, written first) and what the journal
keeps. The next writer of the same store goes on from there. `finish` writes manifest.json, and the others disappear.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.journal import Journal
from trimtab.features.manifest import (
    MANIFEST,
    TEXT,
    UNFINISHED,
    Manifest,
    StoreInfo,
    canonical,
    info_from,
    read_manifest,
    write_manifest,
)
from trimtab.features.store import FeatureStore
from trimtab.files import FolderLock, write_whole
from trimtab.task import Task

UNIT_TOLERANCE = 2e-2


class FeatureWriter:
    """Writes the features of the images that `info` lists, in that order; use it in a `with` block.

    `next_image` says where to begin: 0 for a new store, further on in an unfinished one, N in a finished one.
    """

    def __init__(self, path: str | Path, info: StoreInfo, text: NDArray[np.float32]) -> None:
        self.path = Path(path).expanduser()
        self._info = info
        Task(info.class_names, text, info.logit_scale)  # whatever is wrong with the texts is said before hours of work
        if text.shape[1] != info.dim:
            raise TrimtabError(f"The text prototypes have {text.shape[1]} dimensions, the image features {info.dim}.")
        self._journal = Journal(self.path, info)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path)
        except OSError as error:
            raise TrimtabError(f"The folder {self.path} cannot be written: {error.strerror}.") from None
        try:
            with _write_errors(self.path):
                self._start_or_resume(np.ascontiguousarray(text, dtype=np.float32))
        except BaseException:
            self._lock.release()
            raise

    @property
    def next_image(self) -> int:
        """The first image whose features are not there yet."""
        return self._journal.next_image

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:  # Ctrl-C, mostly; if it is a full disk, that is being said already
                with suppress(OSError):
                    self._journal.save()
        finally:
            self._lock.release()

    def add(
        self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any], unreadable: Sequence[tuple[int, str]]
    ) -> None:
        """The next images: `features` (n, V, d) of those at `indices`, and (index, reason) of those without any."""
        reasons = dict(unreadable)
        covered = sorted([*(int(i) for i in indices), *reasons])
        if covered != list(range(self.next_image, self.next_image + len(covered))):
            raise ValueError(f"images must be added in order, from {self.next_image} on")
        self._check(indices, features)
        rows = iter(features)
        with _write_errors(self.path):
            for position in covered:
                if position in reasons:
                    self._journal.take(None, reasons[position])
                else:
                    self._journal.take(next(rows))
            self._journal.save_sometimes()

    def finish(self) -> FeatureStore:
        """Seal the store and open it."""
        if self.next_image < len(self._info.ids):
            raise ValueError(f"only {self.next_image} of {len(self._info.ids)} images were added")
        with _write_errors(self.path):
            if not (self.path / MANIFEST).exists():
                write_manifest(self.path, self._manifest())
            self._journal.remove()
            (self.path / UNFINISHED).unlink(missing_ok=True)
        self._lock.release(remove=True)
        return FeatureStore.open(self.path)

    def _manifest(self) -> Manifest:
        skipped, ids = self._journal.skipped, self._info.ids
        if len(skipped) == len(ids):
            reason = next(iter(skipped.values()), "the data set is empty.")
            raise TrimtabError(f"None of the {len(ids)} images could be read: {reason}")
        return Manifest(
            info=self._info.without(list(skipped)),
            shards=tuple(shard for shard in self._journal.shards if shard.rows),
            skipped=tuple((ids[position], reason) for position, reason in sorted(skipped.items())),
            text_sha256=self._text_sha256,
        )

    def _start_or_resume(self, text: NDArray[np.float32]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, text)
        self._text_sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
        if (self.path / MANIFEST).exists():
            self._check_finished(read_manifest(self.path))
            self._journal.next_image = len(self._info.ids)
        elif (self.path / UNFINISHED).exists():
            self._check_same(*self._read_unfinished(), self._info)
            self._journal.resume()
        else:
            foreign = sorted(entry.name for entry in self.path.iterdir() if not _is_ours(entry.name))
            if foreign:
                raise TrimtabError(
                    f"{self.path} is not empty and not a feature store (it holds {foreign[0]}); choose another folder."
                )
            write_whole(self.path / TEXT, buffer.getvalue())
            started = {"info": vars(self._info), "text_sha256": self._text_sha256, "per_shard": self._journal.per_shard}
            write_whole(self.path / UNFINISHED, canonical(started))

    def _check_finished(self, manifest: Manifest) -> None:
        dropped = {name for name, _ in manifest.skipped}
        expected = self._info.without([i for i, name in enumerate(self._info.ids) if name in dropped])
        self._check_same(manifest.info, manifest.text_sha256, expected)

    def _check_same(self, stored: StoreInfo, text_sha256: str, wanted: StoreInfo) -> None:
        differences = stored.differences(wanted)
        explained = ("class names", "encoder fingerprint", "prompts")  # by any of which the texts differ, too
        if text_sha256 != self._text_sha256 and not any(found.startswith(explained) for found in differences):
            differences.append("text prototypes")
        if differences:
            raise TrimtabError(
                f"{self.path} already holds other features: it differs in {', '.join(differences)}; "
                "choose another folder, or delete it first."
            )

    def _read_unfinished(self) -> tuple[StoreInfo, str]:
        try:
            content = json.loads((self.path / UNFINISHED).read_bytes())
            stored = info_from(content["info"])
            text_sha256, per_shard = str(content["text_sha256"]), int(content["per_shard"])
        except (KeyError, TypeError, json.JSONDecodeError):
            message = f"{self.path / UNFINISHED} is damaged; delete {self.path} and encode again."
            raise TrimtabError(message) from None
        if stored.views == self._info.views and per_shard != self._journal.per_shard:
            raise TrimtabError(f"{self.path} was begun by another version of trimtab; delete it and encode again.")
        return stored, text_sha256

    def _check(self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any]) -> None:
        expected = (len(indices), self._info.views, self._info.dim)
        if features.shape != expected:
            raise TrimtabError(f"The features of {expected[0]} images have the shape {features.shape}, not {expected}.")
        lengths = np.linalg.norm(features.astype(np.float32), axis=2)
        wrong = ~(np.abs(lengths - 1) <= UNIT_TOLERANCE)  # also true of NaN
        if wrong.any():
            row, view = np.argwhere(wrong)[0]
            name = self._info.ids[int(indices[row])]
            raise TrimtabError(
                f"The feature of {name} (view {view}) has length {lengths[row, view]:.4g}, not 1; "
                "the encoder must give finite unit vectors (try fp32 if it runs in fp16)."
            )


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk and the like into one sentence."""
    try:
        yield
    except OSError as error:
        raise TrimtabError(
            f"The features cannot be written to {folder}: {error.strerror or error}; "
            "what is finished is kept, run the same again to go on."
        ) from None


def _is_ours(name: str) -> bool:
    """What a kill before unfinished.json may leave behind."""
    return name == TEXT or name.startswith(".")
