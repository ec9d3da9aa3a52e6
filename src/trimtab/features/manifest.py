"""manifest.json: what a feature store says about itself, and how it is believed.

A finished store holds manifest.json, text.npy and shards of features, (rows, V, d) each, in NumPy's own file format.
The manifest names every other file with its size and checksum, and carries a checksum of itself. An unfinished store
has the same under the name unfinished.json, without shards.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT = "trimtab-features"
VERSION = 1
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
TEXT = "text.npy"
JPEG_SIDE = "JPEG files at least"  # what preprocessing calls the pixels that a large file keeps when it is decoded
DTYPES = ("float16", "float32")


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
    labels: tuple[int, ...]  # (N,), -1 where unknown
    ids: tuple[str, ...]  # (N,)
    domains: tuple[str, ...] | None = None  # (N,)

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise TrimtabError(f"Features are stored as {' or '.join(DTYPES)}, not as {arguments.shown(self.dtype)}.")
        for name in ("class_names", "labels", "ids", "domains"):
            if name != "domains" or self.domains is not None:
                arguments.instance(name, getattr(self, name), tuple, "a tuple")
        arguments.whole("views", self.views, least=1)
        arguments.whole("dim", self.dim, least=1)
        arguments.positive("logit_scale", self.logit_scale)
        images = len(self.ids)
        for name, found in (("labels", self.labels), ("domains", self.domains)):
            if found is not None and len(found) != images:
                raise TrimtabError(f"There are {images} images but {len(found)} {name}; give one for each image.")
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
class Shard:
    """One file of features."""

    file: str
    rows: int
    size: int  # bytes
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A store's description of itself; `skipped` holds (id, reason) of images that could not be read."""

    info: StoreInfo
    shards: tuple[Shard, ...]
    skipped: tuple[tuple[str, str], ...]
    text_sha256: str

    def content(self) -> dict[str, Any]:
        """As JSON, without the checksum."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **{field.name: getattr(self.info, field.name) for field in fields(self.info)},  # `asdict` copies every name
            "shards": [asdict(shard) for shard in self.shards],
            "skipped": self.skipped,
            "text_sha256": self.text_sha256,
        }

    @cached_property
    def checksum(self) -> str:
        """A hash of all of it, and through the shards' own checksums of every feature."""
        return hashlib.sha256(canonical(self.content())).hexdigest()


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON with one spelling only, so that equal content has equal bytes; in ASCII, as file names need not be UTF-8."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write it with its checksum; under the name MANIFEST it makes the store a finished one."""
    write_whole(path, canonical({**manifest.content(), "checksum": manifest.checksum}))


def read_manifest(path: Path) -> Manifest:
    """What `write_manifest` wrote, or one sentence on why it cannot be trusted."""
    again = f"delete {path.parent} and encode again"
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise TrimtabError(f"{path} does not describe a feature store of trimtab; give the folder that does.")
        if content["version"] != VERSION:
            raise TrimtabError(
                f"{path.parent} has feature format {content['version']}, this trimtab reads {VERSION}; "
                "use the version that made it, or encode again."
            )
        manifest = Manifest(
            info=_info_from(content),
            shards=tuple(Shard(**shard) for shard in content["shards"]),
            skipped=tuple((str(name), str(reason)) for name, reason in content["skipped"]),
            text_sha256=content["text_sha256"],
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


def _info_from(content: Mapping[str, Any]) -> StoreInfo:
    """Whatever is wrong with it is a ValueError here: the file is damaged, the user has given nothing wrong."""
    values = {field.name: content[field.name] for field in fields(StoreInfo)}
    for name in ("class_names", "labels", "ids", "domains"):
        values[name] = None if values[name] is None else tuple(values[name])
    try:
        return StoreInfo(**values)
    except TrimtabError as error:
        raise ValueError(str(error)) from None
