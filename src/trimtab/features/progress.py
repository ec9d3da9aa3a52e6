"""How far an unfinished store is, and how that is found again after a kill.

Images are collected into shards. A save writes the shard that is being filled and then progress.json, which lists all
shards with their checksums and carries one of itself; each file is replaced whole. A kill between the two leaves a
shard with more rows than are listed: its first rows still have the listed checksum. What no checksum vouches for is
encoded again.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.layout import Layout
from trimtab.features.manifest import StoreInfo
from trimtab.features.shard import Shard, as_npy, canonical, shard_file
from trimtab.files import write_whole

PROGRESS = "progress.json"
SECONDS_BETWEEN_SAVES = 30.0  # what a kill may cost


class Progress:
    """Takes images in order and keeps them safe. `images` is how many it has: the number of the next one."""

    def __init__(self, folder: Path, info: StoreInfo, layout: Layout) -> None:
        self._folder, self._info = folder, info
        self._per_shard = layout.images_per_shard
        self.images = 0
        self.shards: list[Shard] = []  # the full ones
        self.skipped: dict[int, str] = {}  # position -> reason
        self._rows: list[NDArray[Any]] = []  # of the shard that is being filled
        self._unsaved = 0  # images
        self._saved_at = time.monotonic()

    def take(self, found: NDArray[Any] | str) -> None:
        """The next image's (V, d) feature, or the reason why it has none."""
        if self._is_full():  # and could not be saved: the disk was full, too
            self.save()
        if isinstance(found, str):
            self.skipped[self.images] = found
        else:
            self._rows.append(found)
        self.images += 1
        self._unsaved += 1
        if self._is_full():
            self.save()

    def save_sometimes(self) -> None:
        """Save if the last time was long ago."""
        if time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Put on the disk whatever is only in memory."""
        if not self._unsaved:
            return
        content = as_npy(np.stack(self._rows)) if self._rows else b""
        name = shard_file(len(self.shards))
        shard = Shard(name, len(self._rows), len(content), hashlib.sha256(content).hexdigest())
        if self._rows:
            write_whole(self._folder / name, content)
        listed = [entry.entry() for entry in (*self.shards, shard)]
        progress = {"images": self.images, "shards": listed, "skipped": list(self.skipped.items())}
        progress["images_per_shard"] = self._per_shard
        write_whole(self._folder / PROGRESS, canonical({**progress, "checksum": _checksum(progress)}))
        if self._is_full():
            self.shards.append(shard)
            self._rows = []
        self._unsaved, self._saved_at = 0, time.monotonic()

    def resume(self) -> None:
        """Take over what an earlier run has saved, up to the first shard that is missing or damaged."""
        try:
            progress = json.loads((self._folder / PROGRESS).read_bytes())
            if progress.pop("checksum") != _checksum(progress):
                return
            images, per_shard = int(progress["images"]), int(progress["images_per_shard"])
            listed = [Shard(**entry) for entry in progress["shards"]]
            skipped = {int(position): str(reason) for position, reason in progress["skipped"]}
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return  # nothing was saved yet, or nothing that can be believed: begin again
        if per_shard != self._per_shard:
            raise TrimtabError(f"{self._folder} was begun by another version of trimtab; delete it and encode again.")
        self.shards = list(takewhile(self._is_there, listed))
        self.images = min(images, len(self.shards) * per_shard)
        self.skipped = {position: reason for position, reason in skipped.items() if position < self.images}
        if self.shards and self.images < self._end_of(len(self.shards)):
            self._rows = list(self._read(self.shards.pop()))

    def _is_full(self) -> bool:
        return self.images == self._end_of(len(self.shards) + 1)

    def _end_of(self, shards: int) -> int:
        """How many images so many full shards are made of."""
        return min(shards * self._per_shard, len(self._info.ids))

    def _is_there(self, shard: Shard) -> bool:
        if not shard.rows:
            return True
        try:
            return hashlib.sha256(as_npy(self._read(shard))).hexdigest() == shard.sha256
        except Exception:  # NumPy has many ways to say "damaged"
            return False

    def _read(self, shard: Shard) -> NDArray[Any]:
        """The rows that are listed."""
        if not shard.rows:
            return np.empty(0)
        rows: NDArray[Any] = np.load(self._folder / shard.file, allow_pickle=False)[: shard.rows]
        return rows


def _checksum(progress: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(progress)).hexdigest()
