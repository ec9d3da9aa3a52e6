"""FeatureWriter: a store that grows shard by shard and survives a kill at any point.

While a store is unfinished its folder holds unfinished.json (what is being made, written first), the shards done so
far, and journal.jsonl, one line for each of them. A shard is written under another name, flushed, renamed, and only
then entered in the journal; so whatever the journal says is there. The next writer keeps those shards and goes on.
`finish` writes manifest.json, and the two others disappear.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.folder_lock import FolderLock
from trimtab.features.manifest import (
    JOURNAL,
    MANIFEST,
    TEXT,
    UNFINISHED,
    Manifest,
    Shard,
    StoreInfo,
    canonical,
    info_from,
    read_manifest,
    write_manifest,
)
from trimtab.features.store import FeatureStore
from trimtab.task import Task
from trimtab.whole_files import write_whole

VIEWS_PER_SHARD = 4096  # what a kill may cost: minutes of a CPU's encoding, seconds of a GPU's
UNIT_TOLERANCE = 2e-2


class FeatureWriter:
    """Writes the features of the images that `info` lists, in that order; use it in a `with` block.

    `next_image` says where to begin: 0 for a new store, further on in an unfinished one, N in a finished one.
    """

    def __init__(self, path: str | Path, info: StoreInfo, text: NDArray[np.float32]) -> None:
        self.path = Path(path).expanduser()
        self._info = info
        self._per_shard = max(1, VIEWS_PER_SHARD // info.views)
        self._shards: list[Shard] = []
        self._skipped: dict[int, str] = {}  # position -> reason
        self._rows: list[NDArray[Any]] = []  # of the shard that is being filled
        self.next_image = 0
        Task(info.class_names, text, info.logit_scale)  # whatever is wrong with the texts is said before hours of work
        if text.shape[1] != info.dim:
            raise TrimtabError(f"The text prototypes have {text.shape[1]} dimensions, the image features {info.dim}.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path)
        except OSError as error:
            raise TrimtabError(f"The folder {self.path} cannot be written: {error.strerror}.") from None
        try:
            self._start_or_resume(np.ascontiguousarray(text, dtype=np.float32))
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def add(
        self, indices: Sequence[int] | NDArray[np.int64], features: NDArray[Any], unreadable: Sequence[tuple[int, str]]
    ) -> None:
        """The next images: `features` (n, V, d) of those at `indices`, and (index, reason) of those without any."""
        failures = dict(unreadable)
        covered = sorted([*(int(i) for i in indices), *failures])
        if covered != list(range(self.next_image, self.next_image + len(covered))):
            raise ValueError(f"images must be added in order, from {self.next_image} on")
        self._check(indices, features)
        row = 0
        for position in covered:
            if position in failures:
                self._skipped[position] = failures[position]
            else:
                self._rows.append(features[row].astype(self._info.dtype))
                row += 1
            self.next_image = position + 1
            if self.next_image % self._per_shard == 0 or self.next_image == len(self._info.ids):
                self._write_shard()

    def finish(self) -> FeatureStore:
        """Seal the store and open it."""
        if self.next_image < len(self._info.ids):
            raise ValueError(f"only {self.next_image} of {len(self._info.ids)} images were added")
        if not (self.path / MANIFEST).exists():
            kept = self._info.without(list(self._skipped))
            if not kept.ids:
                raise TrimtabError(f"None of the {len(self._info.ids)} images could be read: {self._first_reason()}")
            skipped = tuple((self._info.ids[i], reason) for i, reason in sorted(self._skipped.items()))
            shards = tuple(shard for shard in self._shards if shard.rows)
            with _write_errors(self.path):
                write_manifest(self.path, Manifest(kept, shards, skipped, self._text_sha256))
        for empty in self._shards:
            if not empty.rows:
                (self.path / empty.file).unlink(missing_ok=True)
        for leftover in (UNFINISHED, JOURNAL):
            (self.path / leftover).unlink(missing_ok=True)
        self._lock.release(remove=True)
        return FeatureStore.open(self.path)

    def _first_reason(self) -> str:
        return next(iter(self._skipped.values()), "the data set is empty.")

    def _start_or_resume(self, text: NDArray[np.float32]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, text)
        self._text_sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
        if (self.path / MANIFEST).exists():
            self._check_finished(read_manifest(self.path))
            self.next_image = len(self._info.ids)
        elif (self.path / UNFINISHED).exists():
            self._check_same(*self._read_unfinished())
            self._read_journal()
        else:
            foreign = sorted(entry.name for entry in self.path.iterdir() if not _is_ours(entry.name))
            if foreign:
                raise TrimtabError(
                    f"{self.path} is not empty and not a feature store (it holds {foreign[0]}); choose another folder."
                )
            started = {"info": vars(self._info), "text_sha256": self._text_sha256, "per_shard": self._per_shard}
            with _write_errors(self.path):
                write_whole(self.path / TEXT, buffer.getvalue())
                write_whole(self.path / UNFINISHED, canonical(started))

    def _check_finished(self, manifest: Manifest) -> None:
        dropped = {name for name, _ in manifest.skipped}
        expected = self._info.without([i for i, name in enumerate(self._info.ids) if name in dropped])
        self._check_same(manifest.info, manifest.text_sha256, expected)

    def _check_same(self, stored: StoreInfo, text_sha256: str, wanted: StoreInfo | None = None) -> None:
        differences = stored.differences(wanted or self._info)
        if text_sha256 != self._text_sha256 and not {"class names", "encoder fingerprint", "prompts"} & set(
            differences
        ):
            differences.append("text prototypes")
        if differences:
            raise TrimtabError(
                f"{self.path} already holds other features: it differs in {', '.join(differences)}; "
                "choose another folder, or delete it first."
            )

    def _read_unfinished(self) -> tuple[StoreInfo, str]:
        try:
            content = json.loads((self.path / UNFINISHED).read_bytes())
            if content["per_shard"] != self._per_shard:
                raise TrimtabError(f"{self.path} was begun by another version of trimtab; delete it and encode again.")
            return info_from(content["info"]), content["text_sha256"]
        except (OSError, KeyError, TypeError, json.JSONDecodeError):
            message = f"{self.path / UNFINISHED} is damaged; delete {self.path} and encode again."
            raise TrimtabError(message) from None

    def _read_journal(self) -> None:
        """Take over the shards that are entered and whole; a torn last line is what a kill leaves."""
        journal = self.path / JOURNAL
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
        kept = []
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line)
                shard = Shard(**entry["shard"])
                whole = shard.file == _shard_name(number) and (self.path / shard.file).stat().st_size == shard.size
            except (ValueError, KeyError, TypeError, OSError):
                break
            if not whole:
                break
            self._shards.append(shard)
            self._skipped.update({int(position): str(reason) for position, reason in entry["skipped"]})
            kept.append(line + b"\n")
        self.next_image = min(len(kept) * self._per_shard, len(self._info.ids))
        with _write_errors(self.path):
            write_whole(journal, b"".join(kept))

    def _write_shard(self) -> None:
        info, number = self._info, len(self._shards)
        buffer = io.BytesIO()
        rows = np.stack(self._rows) if self._rows else np.empty((0, info.views, info.dim), info.dtype)
        np.save(buffer, rows)
        content = buffer.getvalue()
        shard = Shard(_shard_name(number), len(rows), len(content), hashlib.sha256(content).hexdigest())
        first = number * self._per_shard
        skipped = [[position, reason] for position, reason in self._skipped.items() if position >= first]
        line = canonical({"shard": vars(shard), "skipped": skipped}) + b"\n"
        with _write_errors(self.path):
            write_whole(self.path / shard.file, content)
            with (self.path / JOURNAL).open("ab") as journal:
                journal.write(line)
                journal.flush()
                os.fsync(journal.fileno())
        self._shards.append(shard)
        self._rows = []

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


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.npy"


def _is_ours(name: str) -> bool:
    """What a kill before unfinished.json may leave behind."""
    return name in (TEXT, FolderLock.FILE) or name.startswith(".")
