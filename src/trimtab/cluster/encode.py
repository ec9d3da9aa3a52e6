"""Encode a store on a cluster: one task per shard, and the driver seals the store."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trimtab.cluster.session import Versions, check_versions, each, ray_session, versions
from trimtab.encoders import load_encoder
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.encode_shards import ShardedEncoding, ShardWork
from trimtab.features.encoding import Encoding, Load
from trimtab.features.records import ShardRecord
from trimtab.files import FolderLock
from trimtab.storage import LocalFolder, folder_at


@dataclass(frozen=True)
class EncoderName:
    """An encoder that workers load by themselves, and what it must be there."""

    name: str
    device: str
    precision: str
    fingerprint: str


@lru_cache(maxsize=1)  # kept by a worker from one shard to the next
def encoder_of(named: EncoderName) -> Encoder:
    """The encoder, if it is the driver's."""
    encoder = load_encoder(named.name, device=named.device, precision=named.precision)
    if encoder.fingerprint != named.fingerprint:
        raise TrimtabError(
            f"The encoder {named.name!r} of a worker is another one than the driver's (fingerprint "
            f"{encoder.fingerprint[:12]}, not {named.fingerprint[:12]}); give all machines the same files."
        )
    return encoder


def make_shard(expected: Versions, work: ShardWork, whole: Load | None, named: EncoderName, folder: str) -> ShardRecord:
    """One shard, on a worker; `whole` loads any image of the set, where its loader cannot be divided."""
    check_versions(expected)
    return work.make(encoder_of(named), folder_at("out", folder), whole)


def encode_on_ray(
    encoding: Encoding,
    encoder: Encoder,
    out: object,
    *,
    device: str = "cpu",
    precision: str = "fp32",
    address: str | None = None,
    shard_images: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Write the store that `encoding` plans to a folder or URL that all machines see; see `encode_images`.

    The bytes are those of one machine. Shards that are there stay; a lost worker or node costs the shards that it was
    making. Workers load the encoder by its name. One task takes a core, and with a CUDA device a GPU.
    """
    sharded = ShardedEncoding(encoding, _seen_by_all(out), shard_images)
    named = EncoderName(encoder.name, device, precision, encoder.fingerprint)
    resources: dict[str, Any] = {"num_cpus": 1, "num_gpus": 1 if device.startswith("cuda") else 0}
    lock = FolderLock(sharded.folder.path) if isinstance(sharded.folder, LocalFolder) else None
    try:
        if sharded.missing:
            if progress:
                progress(sharded.images_done, sharded.images)
            with ray_session(address) as ray:
                load = encoding.image_set.load
                whole = None if hasattr(load, "part") else ray.put(load)  # sent to a node once, not with every shard
                made = each(
                    ray,
                    make_shard,
                    sharded.missing,
                    lambda number: (versions(), sharded.work(number), whole, named, str(sharded.folder)),
                    **resources,
                )
                for _, record in made:
                    sharded.take(record)
                    if progress:
                        progress(sharded.images_done, sharded.images)
        sharded.seal()
    finally:
        if lock is not None:
            lock.release(remove=True)
    return FeatureStore.open(str(sharded.folder))


def _seen_by_all(out: object) -> object:
    """A path as workers, whose working folder is another one, understand it."""
    folder = folder_at("out", out)
    return folder.path.absolute() if isinstance(folder, LocalFolder) else str(folder)
