"""Encode a store shard by shard: each shard a function of the plan and its number, wherever it is made.

    plan -> begin -> [shard 0, shard 1, ...] in any order, by anyone, any number of times -> seal

A shard's features, then its sidecars, then its record are written, each whole. So a shard with a record is done, a
shard without one is made again, and two machines that make the same one write the same bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.features.beginning import Begun, begin
from trimtab.features.columns import with_sidecars
from trimtab.features.encoding import Encoding, Load, ViewOptions, encoded
from trimtab.features.records import ShardRecord, read_records, seal, write_record
from trimtab.features.sealing import checked_rows, write_errors
from trimtab.features.shard import Shard, as_npy, shard_file
from trimtab.features.store import FeatureStore
from trimtab.storage import Folder, folder_at


@dataclass(frozen=True, eq=False)
class ShardWork:
    """All that one shard needs, and no more: this is what goes to another machine."""

    number: int
    first: int  # position of its first image in the store
    load: Load | None  # of its images alone; None where the set's loader cannot be divided
    indices: Sequence[int]  # of its images, for the loader
    ids: Sequence[str]
    labels: Sequence[int]
    domains: Sequence[str] | None
    options: ViewOptions
    dtype: str
    sidecars: bool

    def make(self, encoder: Encoder, folder: Folder, whole: Load | None) -> ShardRecord:
        """Encode the images and write the shard; `whole` is the loader of the whole set."""
        load = self.load or whole
        assert load is not None
        named = dict(zip(self.indices, self.ids, strict=True))
        parts: list[NDArray[Any]] = []
        kept: list[int] = []
        skipped: dict[int, str] = {}
        for positions, features, unreadable in encoded(
            load, self.indices, self.first, _ById(named), self.options, encoder
        ):
            here = (positions - self.first).tolist()
            expected = (len(here), self.options.views + self.options.generated_views, encoder.dim)
            parts.append(checked_rows(features, expected, self.dtype, [self.ids[i] for i in here]))
            kept.extend(here)
            skipped.update(unreadable)
        content = as_npy(np.concatenate(parts)) if kept else b""
        shard = Shard(shard_file(self.number), len(kept), len(content), sha256(content).hexdigest())
        if kept:
            folder.write(shard.file, content)
            if self.sidecars:
                shard = with_sidecars(folder, shard, kept, self)
        record = ShardRecord(self.number, shard, skipped)
        write_record(folder, record)
        return record


class _ById(Sequence[str]):
    """Names by an image's index in its set."""

    def __init__(self, named: dict[int, str]) -> None:
        self._named = named

    def __len__(self) -> int:
        return len(self._named)

    def __getitem__(self, index: Any) -> Any:
        return self._named[index]


class ShardedEncoding:
    """A store that is being made shard by shard; `missing` are the shards that nobody has made yet."""

    def __init__(self, encoding: Encoding, out: object, shard_images: int | None = None) -> None:
        self.encoding, self.folder = encoding, folder_at("out", out)
        if encoding.context is not None:
            raise TrimtabError("A learned context is kept by stores that one machine encodes; leave --context out.")
        with write_errors(self.folder):
            self.begun: Begun = begin(self.folder, encoding.info, encoding.text, shard_images)
        self.images = len(encoding.info.ids)
        self.shards = self.begun.layout.shards(self.images)
        self._records = {} if self.begun.finished else read_records(self.folder, self.shards)

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are still to be made."""
        return [] if self.begun.finished else [n for n in range(self.shards) if n not in self._records]

    @property
    def images_done(self) -> int:
        """How many images the finished shards are made of."""
        if self.begun.finished:
            return self.images
        return sum(len(self.begun.layout.span(number, self.images)) for number in self._records)

    def work(self, number: int) -> ShardWork:
        """What one shard needs."""
        info, span = self.encoding.info, self.begun.layout.span(number, self.images)
        here = slice(span.start, span.stop)
        indices = self.encoding.chosen[here].tolist()
        divide = getattr(self.encoding.image_set.load, "part", None)
        return ShardWork(
            number=number,
            first=span.start,
            load=divide(indices) if divide else None,
            indices=range(len(indices)) if divide else indices,
            ids=info.ids[here],
            labels=info.labels[here],
            domains=None if info.domains is None else info.domains[here],
            options=self.encoding.options,
            dtype=info.dtype,
            sidecars=self.begun.layout.version == 2,
        )

    def take(self, record: ShardRecord) -> None:
        """A shard was made."""
        self._records[record.number] = record

    def seal(self) -> bool:
        """Finish the store if all its shards are there; whether it is finished."""
        if self.begun.finished:
            return True
        if self.missing:
            self._records = read_records(self.folder, self.shards)  # others may have made them
        if self.missing:
            return False
        with write_errors(self.folder):
            seal(self.folder, self.encoding.info, self.begun, self._records)
        return True


def encode_shards(
    encoding: Encoding,
    encoder: Encoder,
    out: object,
    *,
    shard_images: int | None = None,
    only: tuple[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore | None:
    """Make the shards that are missing, here and one after the other, and seal the store.

    `only=(i, n)` makes every n-th shard, from the i-th (1 to n): one of n jobs. The job that finds all shards made
    seals the store; the others, whose store is not finished yet, get None.
    """
    sharded = ShardedEncoding(encoding, out, shard_images)
    mine = sharded.missing if only is None else [n for n in sharded.missing if n % only[1] == only[0] - 1]
    if progress:
        progress(sharded.images_done, sharded.images)
    for number in mine:
        with write_errors(sharded.folder):
            sharded.take(sharded.work(number).make(encoder, sharded.folder, encoding.image_set.load))
        if progress:
            progress(sharded.images_done, sharded.images)
    return FeatureStore.open(str(sharded.folder)) if sharded.seal() else None


def parse_shard(text: str) -> tuple[int, int]:
    """From "3/16" to (3, 16)."""
    number, slash, jobs = text.partition("/")
    if not (slash and number.isdecimal() and jobs.isdecimal() and 1 <= int(number) <= int(jobs)):
        raise TrimtabError(f"--shard takes i/n, such as 3/16, with i from 1 to n; not {arguments.shown(text)}.")
    return int(number), int(jobs)
