"""Webdataset shards: tar files whose members go together by name (0001.jpg, 0001.cls, ...).

A stream may be met in any order, so the shards are indexed once and images read at their place, without unpacking.
"""

import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.base import LABEL_FIELDS, ImageSet, class_list_beside, decoded_bytes, natural, numbered_labels
from trimtab.data.folder import IMAGE_SUFFIXES
from trimtab.errors import TrimtabError

LABEL_PARTS: Final = ("cls", "json", "txt")


@dataclass(frozen=True)
class _Member:
    shard: Path
    offset: int
    size: int

    def read(self) -> bytes:
        with self.shard.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True, eq=False)
class TarImages:
    """Images inside tar files, read at their place."""

    members: Sequence[_Member]
    ids: Sequence[str]
    enough: int | None = None  # as in `trimtab.images.decode`

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        return decoded_bytes(self.members[index].read(), self.ids[index], self.enough)

    def part(self, indices: Sequence[int]) -> "TarImages":
        """Some of them, numbered from 0: what another machine needs."""
        return replace(self, members=[self.members[i] for i in indices], ids=[self.ids[i] for i in indices])


def from_webdataset(place: str | Path, class_names: Sequence[str] | None = None) -> ImageSet:
    """The images of a folder of shards (or of its test folder), or of a pattern such as "data/test-{000..009}.tar".

    Labels are the members .cls (a number or a name), .json (a usual field) or .txt (a name); names for numbers come
    from classnames.txt or classes.txt beside the shards or above them.
    """
    shards = _shards(str(arguments.place("place", place)))
    samples = [sample for shard in shards for sample in _samples(shard)]
    images = [(key, _image_of(parts)) for key, parts in samples]
    kept = [(key, image, parts) for (key, image), (_, parts) in zip(images, samples, strict=True) if image is not None]
    if not kept:
        raise TrimtabError(f"The shards of {place} hold no images.")
    names = class_names or class_list_beside(shards[0].parent) or class_list_beside(shards[0].parent.parent)
    ids = [f"{image.shard.name}/{key}" for key, image, _ in kept]
    written = [_label_of(parts) for _, _, parts in kept]
    labels, known = numbered_labels(written, names, str(place), ids)
    return ImageSet(
        name=_plain_name(shards[0]),
        class_names=known,
        labels=labels,
        ids=ids,
        load=TarImages([image for _, image, _ in kept], ids),
    )


def _shards(place: str) -> list[Path]:
    folder = Path(place).expanduser()
    if folder.is_dir():
        places = [folder, folder / "test"]
        found = next((paths for paths in (list(where.glob("*.tar")) for where in places) if paths), [])
    else:
        patterns = [Path(pattern).expanduser() for pattern in _without_braces(place)]
        found = [path for pattern in patterns for path in pattern.parent.glob(pattern.name)]
    if not found:
        raise TrimtabError(f"There are no .tar shards at {place}.")
    return sorted(found, key=lambda path: natural(path.as_posix()))


def _without_braces(pattern: str) -> list[str]:
    if "{" not in pattern:
        return [pattern]
    try:
        from braceexpand import braceexpand
    except ImportError:
        raise TrimtabError('Patterns with {} need braceexpand: pip install "trimtab[datasets]".') from None
    return list(braceexpand(pattern))


def _samples(shard: Path) -> list[tuple[str, dict[str, _Member]]]:
    samples: dict[str, dict[str, _Member]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                key, dot, part = name.partition(".")
                if member.isfile() and dot and key:
                    sample = samples.setdefault(folder + slash + key, {})
                    sample[part.lower()] = _Member(shard, member.offset_data, member.size)
    except (tarfile.TarError, OSError) as error:
        raise TrimtabError(
            f"{shard} is not a complete, uncompressed tar file ({error}); fetch or unpack it again."
        ) from None
    return list(samples.items())


def _image_of(parts: dict[str, _Member]) -> _Member | None:
    return next((member for part, member in parts.items() if f".{part.rpartition('.')[2]}" in IMAGE_SUFFIXES), None)


def _label_of(parts: dict[str, _Member]) -> str:
    part = next((part for part in LABEL_PARTS if part in parts), None)
    if part is None:
        return ""
    text = parts[part].read().decode("utf-8", errors="replace").strip()
    if part != "json":
        return text
    try:
        record = json.loads(text)
    except ValueError:
        raise TrimtabError(f"A .json member of {parts[part].shard} is not JSON; write the shards again.") from None
    label = next((record[field] for field in LABEL_FIELDS if field in record), "") if isinstance(record, dict) else ""
    return str(label).strip()


def _plain_name(shard: Path) -> str:
    folder = shard.resolve().parent
    return folder.parent.name if folder.name == "test" else folder.name
