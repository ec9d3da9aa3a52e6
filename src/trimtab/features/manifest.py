"""manifest.json: what a feature store says about itself, and how it is believed.

A finished store holds manifest.json, text.npy and shards of features, (rows, V, d) each, in NumPy's own file format.
The manifest names every other file with its size and checksum, and carries a checksum of itself. An unfinished store
has the same under the name unfinished.json, without shards.

Version 1 lists every image in the manifest. Version 2, of large stores, keeps names, labels and domains beside each
shard (see `columns`), and the manifest has only a checksum of each column.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.columns import Column, column_sha256
from trimtab.features.shard import Shard, canonical
from trimtab.storage import Folder

FORMAT = "trimtab-features"
VERSIONS = (1, 2)
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
TEXT = "text.npy"
JPEG_SIDE = "JPEG files at least"  # what preprocessing calls the pixels that a large file keeps when it is decoded
DTYPES = ("float16", "float32")
COLUMNS = ("labels", "ids", "domains")


@dataclass(frozen=True)
class StoreInfo:
    """What features are of and how they were made; N images, C classes.

    `preprocessing` says how pixels became views, `prompts` how class names became text prototypes.
    """

    dataset: str
    encoder: str
    encoder_fingerprint: str
    preprocessing: Mapping[str, Any]
    prompts: str
    seed: int
    views: int
    dim: int
    dtype: str
    logit_scale: float
    class_names: tuple[str, ...]
    labels: tuple[int, ...] | Column  # (N,), -1 where unknown
    ids: tuple[str, ...] | Column  # (N,)
    domains: tuple[str, ...] | Column | None = None  # (N,)

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise TrimtabError(f"Features are stored as {' or '.join(DTYPES)}, not as {arguments.shown(self.dtype)}.")
        for name in ("class_names", "labels", "ids", "domains"):
            if (name != "domains" or self.domains is not None) and not isinstance(getattr(self, name), Column):
                arguments.instance(name, getattr(self, name), tuple, "a tuple")
        arguments.whole("views", self.views, least=1)
        arguments.whole("dim", self.dim, least=1)
        arguments.positive("logit_scale", self.logit_scale)
        images = len(self.ids)
        for name, found in (("labels", self.labels), ("domains", self.domains)):
            if found is not None and len(found) != images:
                raise TrimtabError(f"There are {images} images but {len(found)} {name}; give one for each image.")
        if isinstance(self.labels, Column):
            return  # checked when its store was written, and by their checksum when they are read
        wrong = [label for label in self.labels if type(label) is not int or not -1 <= label < len(self.class_names)]
        if wrong:
            raise TrimtabError(
                f"A label is {wrong[0]}, but there are {len(self.class_names)} classes; labels go from 0 to "
                f"{len(self.class_names) - 1}, and -1 means unknown."
            )

    def without(self, positions: Sequence[int]) -> "StoreInfo":
        """The same, less the images at these positions."""
        dropped = set(positions)
        kept = [i for i in range(len(self.ids)) if i not in dropped]
        return replace(
            self,
            labels=tuple(self.labels[i] for i in kept),
            ids=tuple(self.ids[i] for i in kept),
            domains=None if self.domains is None else tuple(self.domains[i] for i in kept),
        )

    def differences(self, other: "StoreInfo") -> list[str]:
        """What is not the same, in words."""
        found = []
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs:
                name = field.name.replace("_", " ")
                short = max(len(str(ours)), len(str(theirs))) <= 40
                found.append(f"{name} ({ours} there, {theirs} here)" if short else name)
        return found


@dataclass(frozen=True)
class Manifest:
    """A store's description of itself; `skipped` holds (id, reason) of images that could not be read."""

    info: StoreInfo
    shards: tuple[Shard, ...]
    skipped: tuple[tuple[str, str], ...]
    text_sha256: str
    images_per_shard: int | None = None  # of version 2

    def content(self) -> dict[str, Any]:
        """As JSON, without the checksum."""
        described = {field.name: getattr(self.info, field.name) for field in fields(self.info)}
        if self.images_per_shard is not None:
            described["columns"] = {name: column_sha256(described.pop(name)) for name in COLUMNS}
            described |= {"images": len(self.info.ids), "images_per_shard": self.images_per_shard}
        return {
            "format": FORMAT,
            "version": 1 if self.images_per_shard is None else 2,
            **described,
            "shards": [shard.entry() for shard in self.shards],
            "skipped": self.skipped,
            "text_sha256": self.text_sha256,
        }

    @cached_property
    def checksum(self) -> str:
        """A hash of all of it, and through the shards' own checksums of every feature."""
        return hashlib.sha256(canonical(self.content())).hexdigest()


def write_manifest(folder: Folder, name: str, manifest: Manifest) -> None:
    """Write it with its checksum; under the name MANIFEST it makes the store a finished one."""
    folder.write(name, canonical({**manifest.content(), "checksum": manifest.checksum}))


def read_manifest(folder: Folder, name: str) -> Manifest:
    """What `write_manifest` wrote, or one sentence on why it cannot be trusted."""
    path, again = f"{folder}/{name}", f"delete {folder} and encode again"
    try:
        content = json.loads(folder.read(name))
        if content["format"] != FORMAT:
            raise TrimtabError(f"{path} does not describe a feature store of trimtab; give the folder that does.")
        if content["version"] not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise TrimtabError(
                f"{folder} has feature format {content['version']}, this trimtab reads {known}; "
                "use the version that made it, or encode again."
            )
        shards = tuple(Shard(**shard) for shard in content["shards"])
        manifest = Manifest(
            info=_info_from(content, folder, shards),
            shards=shards,
            skipped=tuple((str(name), str(reason)) for name, reason in content["skipped"]),
            text_sha256=content["text_sha256"],
            images_per_shard=int(content["images_per_shard"]) if content["version"] == 2 else None,
        )
        if content["checksum"] != manifest.checksum:
            raise TrimtabError(f"{path} was changed after it was written (its checksum differs); {again}.")
    except TrimtabError:
        raise
    except (ValueError, KeyError, TypeError):
        raise TrimtabError(f"{path} is damaged or was written by another version of trimtab; {again}.") from None
    except OSError as error:
        raise TrimtabError(f"{path} cannot be read: {error.strerror}.") from None
    return manifest


def _info_from(content: Mapping[str, Any], folder: Folder, shards: tuple[Shard, ...]) -> StoreInfo:
    """Whatever is wrong with it is a ValueError here: the file is damaged, the user has given nothing wrong."""
    listed = dict(content)
    if content["version"] == 2:
        images, sums = int(content["images"]), content["columns"]
        for name in COLUMNS:
            listed[name] = None if sums[name] is None else Column(folder, shards, name, images, sums[name])
    values = {field.name: listed[field.name] for field in fields(StoreInfo)}
    for name in ("class_names", *COLUMNS):
        if values[name] is not None and not isinstance(values[name], Column):
            values[name] = tuple(values[name])
    try:
        return StoreInfo(**values)
    except TrimtabError as error:
        raise ValueError(str(error)) from None
