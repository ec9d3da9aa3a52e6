"""What is known of a shard that was written on its own: shard-00007.json beside shard-00007.npy, until the seal.

Whoever has written a shard writes its record last, so a record means that the shard is whole. Records are how the
shards of many machines find together: the one that seals the store reads them all.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.features.beginning import Begun
from trimtab.features.manifest import MANIFEST, UNFINISHED, StoreInfo, write_manifest
from trimtab.features.sealing import sealed
from trimtab.features.shard import Shard, canonical, shard_file
from trimtab.storage import Folder


@dataclass(frozen=True)
class ShardRecord:
    """A shard, and why some of its images (by their position in the store) have no row."""

    number: int
    shard: Shard
    skipped: Mapping[int, str]

    def content(self) -> dict[str, Any]:
        """As JSON, without the checksum."""
        skipped = [[position, reason] for position, reason in sorted(self.skipped.items())]
        return {"number": self.number, "shard": self.shard.entry(), "skipped": skipped}


def record_file(number: int) -> str:
    """The name of a shard's record."""
    return shard_file(number).removesuffix(".npy") + ".json"


def write_record(folder: Folder, record: ShardRecord) -> None:
    """Say that a shard is whole."""
    folder.write(record_file(record.number), canonical({**record.content(), "checksum": _checksum(record)}))


def read_records(folder: Folder, shards: int) -> dict[int, ShardRecord]:
    """The shards that are whole, by number; a record that is damaged, or whose shard is gone, is none."""
    sizes = folder.sizes()
    found = {}
    for number in range(shards):
        if record_file(number) in sizes:
            record = _read(folder, number)
            if record is not None and (not record.shard.rows or sizes.get(record.shard.file) == record.shard.size):
                found[number] = record
    return found


def seal(folder: Folder, info: StoreInfo, begun: Begun, records: Mapping[int, ShardRecord]) -> None:
    """Make a store of shards that are all there; their records go."""
    shards = {number: record.shard for number, record in records.items()}
    skipped = {position: reason for record in records.values() for position, reason in record.skipped.items()}
    write_manifest(folder, MANIFEST, sealed(folder, info, begun, shards, skipped))
    for number in sorted(records):
        folder.remove(record_file(number))
    folder.remove(UNFINISHED)


def refuse_records(folder: Folder) -> None:
    """Raise if the store was begun shard by shard: one writer that goes through it would not know them."""
    if any(name.startswith("shard-") and name.endswith(".json") and name.count(".") == 1 for name in folder.sizes()):
        raise TrimtabError(
            f"{folder} was begun shard by shard; continue it with --engine ray or with --shard, or delete it first."
        )


def _read(folder: Folder, number: int) -> ShardRecord | None:
    try:
        content = json.loads(folder.read(record_file(number)))
        skipped = {int(position): str(reason) for position, reason in content["skipped"]}
        record = ShardRecord(int(content["number"]), Shard(**content["shard"]), skipped)
        return record if content["checksum"] == _checksum(record) and record.number == number else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _checksum(record: ShardRecord) -> str:
    return hashlib.sha256(canonical(record.content())).hexdigest()
