"""What a large store says of each image (its name, label and domain), kept in files beside the shards.

shard-00007.labels.npy holds the labels of shard-00007.npy, (rows,) int32; shard-00007.ids.json the names and, where
there are any, the domains. The manifest has a checksum of each file, and one of each whole column: two stores of the
same images are recognized without reading a sidecar.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.shard import Shard, as_npy, canonical
from trimtab.storage import Folder

AT_ONCE = 4096  # items per piece of a column's checksum


class Columns(Protocol):
    """What says of each image what it is: a `StoreInfo`, or a part of one."""

    @property
    def ids(self) -> Sequence[str]:
        """(N,)."""

    @property
    def labels(self) -> Sequence[int]:
        """(N,)."""

    @property
    def domains(self) -> Sequence[str] | None:
        """(N,)."""


def labels_file(shard: str) -> str:
    """The file of the labels beside a shard's file."""
    return shard.removesuffix(".npy") + ".labels.npy"


def ids_file(shard: str) -> str:
    """The file of the names beside a shard's file."""
    return shard.removesuffix(".npy") + ".ids.json"


def sums_of(shard: Shard) -> dict[str, str]:
    """Every file of a shard with its checksum."""
    named = {labels_file(shard.file): shard.labels_sha256, ids_file(shard.file): shard.ids_sha256}
    return {shard.file: shard.sha256} | {file: sha256 for file, sha256 in named.items() if sha256}


def sidecars(shard: str, ids: Sequence[str], labels: Sequence[int], domains: Sequence[str] | None) -> dict[str, bytes]:
    """The sidecars of a shard: file -> content."""
    names = canonical({"ids": list(ids), "domains": None if domains is None else list(domains)})
    return {labels_file(shard): as_npy(np.asarray(labels, np.int32)), ids_file(shard): names}


def with_sidecars(folder: Folder, shard: Shard, kept: Sequence[int], info: "Columns") -> Shard:
    """Write the sidecars of a shard, whose rows are the images at the positions `kept`; the shard with their sums."""
    written = sidecars(
        shard.file,
        [info.ids[i] for i in kept],
        [info.labels[i] for i in kept],
        None if info.domains is None else [info.domains[i] for i in kept],
    )
    for file, content in written.items():
        folder.write(file, content)
    labels, ids = (hashlib.sha256(content).hexdigest() for content in written.values())
    return replace(shard, labels_sha256=labels, ids_sha256=ids)


def column_sha256(column: "Sequence[Any] | Column | None") -> str | None:
    """A hash of all items of a column, in order."""
    if column is None or isinstance(column, Column):
        return None if column is None else column.sha256
    digest = hashlib.sha256()
    for start in range(0, len(column), AT_ONCE):
        digest.update(json.dumps(list(column[start : start + AT_ONCE]), separators=(",", ":")).encode())
    return digest.hexdigest()


class Column(Sequence[Any]):
    """A column of a large store: a sequence that reads its sidecars when it is asked."""

    def __init__(self, folder: Folder, shards: Sequence[Shard], name: str, images: int, sha256: str) -> None:
        self.name, self.sha256 = name, sha256
        self._folder, self._shards, self._images = folder, shards, images
        self._starts = np.cumsum([0, *(shard.rows for shard in shards)])
        self._part = lru_cache(1)(self._read)

    def __len__(self) -> int:
        return self._images

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[position] for position in range(*place.indices(len(self)))]
        position = range(len(self))[place]
        shard = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self._part(shard)[position - int(self._starts[shard])]

    def __iter__(self) -> Iterator[Any]:
        for shard in range(len(self._shards)):
            yield from self._part(shard)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and self.sha256 == column_sha256(other)

    def __hash__(self) -> int:
        return hash(self.sha256)

    def array(self) -> NDArray[np.int64]:
        """The labels, (N,)."""
        parts = [self._labels(shard) for shard in self._shards]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)

    def _read(self, shard: int) -> list[Any]:
        entry = self._shards[shard]
        if self.name == "labels":
            found: list[Any] = self._labels(entry).tolist()
            return found
        names: list[Any] = json.loads(self._checked(ids_file(entry.file), entry.ids_sha256))[self.name]
        return names

    def _labels(self, shard: Shard) -> NDArray[np.int32]:
        content = self._checked(labels_file(shard.file), shard.labels_sha256)
        labels: NDArray[np.int32] = np.load(io.BytesIO(content), allow_pickle=False)
        return labels

    def _checked(self, file: str, sha256: str) -> bytes:
        try:
            content = self._folder.read(file)
        except OSError as error:
            raise TrimtabError(
                f"{self._folder}/{file} cannot be read: {error.strerror or 'it is not there'}."
            ) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise TrimtabError(
                f"{self._folder}/{file} was changed after it was written; restore it, or delete {self._folder} and "
                "encode again."
            )
        return content
