"""The rows of a store, as one array that lies in many files: memory-mapped, or read from where a URL leads."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.manifest import Manifest
from trimtab.storage import Folder

OPEN_SHARDS = 16  # mapped at once: bounds both the open files and the memory that a long walk keeps

Rows = NDArray[np.floating[Any]]
Selection = slice | Sequence[int] | NDArray[np.integer[Any]] | NDArray[np.bool_]


class ShardedRows:
    """An array-like (N, V, d) over the shards of a store; what is not asked for is not read.

    `rows_checked` says that no row is zero, infinite or NaN: every version of the writer has refused rows whose length
    is not 1. Opening a store compares the sizes of its files, `verify` compares every byte; a file that was edited
    later and kept its size is beyond this promise.
    """

    rows_checked = True

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
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

    def _map_shard(self, number: int) -> Any:
        shard = self._shards[number]
        path = f"{self._folder}/{shard.file}"
        try:
            rows = self._folder.array(shard.file)
        except (OSError, ValueError, EOFError) as error:
            raise TrimtabError(
                f"{path} cannot be read ({error}); restore it, or delete {self._folder} and encode again."
            ) from None
        if rows.shape != (shard.rows, *self.shape[1:]) or rows.dtype != self.dtype:
            raise TrimtabError(f"{path} holds {rows.dtype} {rows.shape}, which is not what the manifest says.")
        return rows
