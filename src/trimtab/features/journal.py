"""What an unfinished store has so far, on disk and in memory, and how it is found again after a kill.

A shard is written under another name, flushed, renamed, and only then entered in journal.jsonl; so whatever the journal
says is there. Between shards, what is in memory goes to partial.npz every now and then, whole or not at all.
"""

import hashlib
import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.features.manifest import Shard, StoreInfo, canonical
from trimtab.files import write_whole

JOURNAL = "journal.jsonl"
PARTIAL = "partial.npz"
VIEWS_PER_SHARD = 4096  # 4 MB of float16 at 512 dimensions: few files, and little to read for a few rows
SECONDS_BETWEEN_SAVES = 30.0  # what a kill may cost


class Journal:
    """Takes features in the order of the images and keeps them safe. `next_image` is the first one still missing."""

    def __init__(self, folder: Path, info: StoreInfo) -> None:
        self._folder, self._info = folder, info
        self.per_shard = max(1, VIEWS_PER_SHARD // info.views)
        self.shards: list[Shard] = []
        self.skipped: dict[int, str] = {}  # position -> reason
        self._rows: list[NDArray[Any]] = []  # of the shard that is being filled
        self._saved = time.monotonic()
        self.next_image = 0

    def take(self, feature: NDArray[Any] | None, reason: str = "") -> None:
        """The next image's (V, d) feature, or the reason why it has none."""
        if feature is None:
            self.skipped[self.next_image] = reason
        else:
            self._rows.append(feature.astype(self._info.dtype))
        self.next_image += 1
        self._write_shard_if_full()

    def save_sometimes(self) -> None:
        """Save what is in memory if that was long ago."""
        if time.monotonic() - self._saved >= SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Save what is in memory and not yet in a shard."""
        first = len(self.shards) * self.per_shard
        self._saved = time.monotonic()
        if self.next_image <= first:
            return
        buffer = io.BytesIO()
        skipped = json.dumps([entry for entry in self.skipped.items() if entry[0] >= first])
        np.savez(buffer, first=first, next_image=self.next_image, rows=self._stacked(), skipped=skipped)
        write_whole(self._folder / PARTIAL, buffer.getvalue())

    def resume(self) -> None:
        """Take over what an earlier run has left."""
        self._resume_shards()
        self._resume_partial()

    def remove(self) -> None:
        """Leave nothing but the shards that hold rows."""
        for leftover in (JOURNAL, PARTIAL, *(shard.file for shard in self.shards if not shard.rows)):
            (self._folder / leftover).unlink(missing_ok=True)

    def _stacked(self) -> NDArray[Any]:
        info = self._info
        return np.stack(self._rows) if self._rows else np.empty((0, info.views, info.dim), info.dtype)

    def _write_shard_if_full(self) -> None:
        if self.next_image < min((len(self.shards) + 1) * self.per_shard, len(self._info.ids)):
            return
        number, rows, buffer = len(self.shards), self._stacked(), io.BytesIO()
        np.save(buffer, rows)
        content = buffer.getvalue()
        shard = Shard(_shard_name(number), len(rows), len(content), hashlib.sha256(content).hexdigest())
        skipped = [entry for entry in self.skipped.items() if entry[0] >= number * self.per_shard]
        write_whole(self._folder / shard.file, content)
        with (self._folder / JOURNAL).open("ab") as journal:
            journal.write(canonical({"shard": vars(shard), "skipped": skipped}) + b"\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.shards.append(shard)
        self._rows = []
        self._saved = time.monotonic()

    def _resume_shards(self) -> None:
        """The shards that are entered and whole; a torn last line is what a kill leaves."""
        path, kept = self._folder / JOURNAL, b""
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line)
                shard = Shard(**entry["shard"])
                whole = shard.file == _shard_name(number) and (self._folder / shard.file).stat().st_size == shard.size
            except (ValueError, KeyError, TypeError, OSError):
                break
            if not whole:
                break
            self.shards.append(shard)
            self.skipped.update({int(position): str(reason) for position, reason in entry["skipped"]})
            kept += line + b"\n"
        self.next_image = min(len(self.shards) * self.per_shard, len(self._info.ids))
        write_whole(path, kept)

    def _resume_partial(self) -> None:
        """The images after the last shard; a file from before that shard, or a damaged one, is of no use."""
        try:
            with np.load(self._folder / PARTIAL, allow_pickle=False) as partial:
                first, end, rows = int(partial["first"]), int(partial["next_image"]), partial["rows"]
                skipped = {int(position): str(reason) for position, reason in json.loads(str(partial["skipped"]))}
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return
        info = self._info
        fits = rows.shape == (end - first - len(skipped), info.views, info.dim) and rows.dtype == info.dtype
        if first == self.next_image and fits:
            self._rows = list(rows)
            self.skipped.update(skipped)
            self.next_image = end
            self._write_shard_if_full()  # it was full, but the disk was, too


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.npy"
