"""ImageSet: what every data set looks like to the rest of trimtab, and the parts that every data set is made of.

The set itself; where its pixels come from (each can be sent to another process); how labels as people write them
become class indices; and several sets as one.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.images.decode import decode

Load: TypeAlias = Callable[[int], NDArray[np.uint8]]

UNLABELED = -1
LABEL_FIELDS: Final = ("label", "class", "class_name", "classname", "category", "target")  # as people call them
CLASS_LISTS: Final = ("classes.txt", "classnames.txt")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with names, and labels where there are any.

    `load(i)` decodes image i into (H, W, 3) RGB bytes; `labels[i]` is a class index or UNLABELED;
    `ids[i]` names the image for people (a path, or "test_batch/17"); `domains[i]` names its style where there is one.
    """

    name: str
    class_names: tuple[str, ...]
    labels: NDArray[np.int64]
    ids: Sequence[str]
    load: Load
    domains: Sequence[str] | None = None
    templates: str = "photo"  # the name of a template set in trimtab.prompts

    def __len__(self) -> int:
        return len(self.ids)


def drawn(image_set: ImageSet, limit: int | None, seed: int) -> NDArray[np.int64]:
    """The numbers of a set's images, in their order: all, or `limit` of them drawn by the seed."""
    total = len(image_set)
    if total == 0:
        raise TrimtabError(f"{image_set.name} holds no images.")
    if limit is None or arguments.whole("limit", limit, least=1) >= total:
        return np.arange(total)
    # The first ones would all be of the first class in most data sets.
    return np.sort(np.random.default_rng(seed).choice(total, limit, replace=False))


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files, decoded when they are asked for."""

    paths: Sequence[Path]
    enough: int | None = None  # as in `trimtab.images.decode`

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        return decode(self.paths[index], enough=self.enough)

    def part(self, indices: Sequence[int]) -> "FileImages":
        """Some of them, numbered from 0: what another machine needs."""
        return replace(self, paths=[self.paths[index] for index in indices])


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Images held in memory as the bytes of their JPEG or PNG files; `ids` name them when one is damaged."""

    blobs: Sequence[bytes]
    ids: Sequence[str]
    enough: int | None = None  # as in `trimtab.images.decode`

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        return decoded_bytes(self.blobs[index], self.ids[index], self.enough)

    def part(self, indices: Sequence[int]) -> "EncodedImages":
        """Some of them, numbered from 0."""
        return replace(self, blobs=[self.blobs[i] for i in indices], ids=[self.ids[i] for i in indices])


@dataclass(frozen=True, eq=False)
class GrayImages:
    """Gray images held in memory as one (N, H, W) array, given out with three equal channels."""

    pixels: NDArray[np.uint8]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) bytes."""
        return np.repeat(self.pixels[index][..., None], 3, axis=2)

    def part(self, indices: Sequence[int]) -> "GrayImages":
        """Some of them, numbered from 0."""
        return GrayImages(self.pixels[np.asarray(indices)])


def no_larger_than(load: Load, enough: int) -> Load:
    """The same images, files decoded smaller where `enough` pixels remain; those that are in memory as they are."""
    options: dict[str, Any] = {}
    if isinstance(load, JoinedImages):
        smaller = [no_larger_than(part, enough) for part in load.loads]
        if any(one is not other for one, other in zip(smaller, load.loads, strict=True)):
            options["loads"] = smaller
    elif hasattr(load, "enough"):
        options["enough"] = enough
    return replace(load, **options) if options else load  # type: ignore[type-var]


def decoded_bytes(blob: bytes, name: str, enough: int | None = None) -> NDArray[np.uint8]:
    """Decode an image's bytes; an error says which image it was."""
    try:
        return decode(blob, enough=enough)
    except TrimtabError as error:
        raise TrimtabError(str(error).replace("The image given as bytes", name, 1)) from None


def numbered_labels(
    labels: Sequence[str], class_names: Sequence[str] | None, where: str, items: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices and class names for labels given as text; "" means unlabeled.

    Without `class_names` the labels themselves are the classes, in natural order. Numbers are positions in
    `class_names`, unless those are numbers too. `where` and `items` (one name per label) go into error messages.
    """
    given = {label for label in labels if label}
    numbers = bool(given) and all(label.isdecimal() for label in given)
    if class_names is None and numbers:
        raise TrimtabError(
            f"The labels of {where} are numbers; write the classes' names, one per line in the order of the numbers "
            f"(the first is 0), into {CLASS_LISTS[0]} beside it."
        )
    names = tuple(class_names) if class_names is not None else tuple(sorted(given, key=natural))
    codes = {name: code for code, name in enumerate(names)}
    if numbers and not given <= set(codes):
        codes = {str(code): code for code in range(len(names))}
    for label, item in zip(labels, items, strict=True):
        if label and label not in codes:
            raise TrimtabError(
                f"{item} of {where} has the label {label!r}, which is not one of the {len(names)} classes."
            )
    return np.array([codes[label] if label else UNLABELED for label in labels], dtype=np.int64), names


def class_list_beside(folder: Path) -> tuple[str, ...] | None:
    """The class names, one per line, that a folder holds as classes.txt or classnames.txt; None when it holds none."""
    for path in (folder / name for name in CLASS_LISTS):
        if path.is_file():
            names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
            if len(set(names)) < len(names):
                raise TrimtabError(f"{path} names a class twice; give every class a name of its own.")
            return names
    return None


def natural(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """A sort key that puts "2" before "10" and "b" after "A"; exact spelling decides between equals."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part.casefold()) for part in parts if part), name


@dataclass(frozen=True, eq=False)
class JoinedImages:
    """Loads from the set that an index falls into."""

    loads: Sequence[Load]
    starts: Sequence[int]  # the index of each set's first image

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index`, counted through all sets."""
        which = bisect_right(self.starts, index) - 1
        return self.loads[which](index - self.starts[which])


def joined(sets: Sequence[ImageSet], name: str | None = None) -> ImageSet:
    """The images of all sets, one set after another; the domains are the sets' names.

    Orders such as "domain-sequence" and "domain-mixture" then arrange them.
    """
    if not isinstance(sets, Sequence) or not all(isinstance(images, ImageSet) for images in sets):
        raise TrimtabError(f"sets must be a list of ImageSets, not {arguments.shown(sets)}.")
    if name is not None:
        arguments.text("name", name)
    if not sets:
        raise TrimtabError("There are no sets to join.")
    first = sets[0]
    other = next((images for images in sets if images.class_names != first.class_names), None)
    if other is not None:
        raise TrimtabError(f"{first.name} and {other.name} have different classes and cannot be joined.")
    names = [images.name for images in sets]
    if len(set(names)) < len(names):
        raise TrimtabError(
            f"Two of the sets have the same name ({', '.join(names)}), but each must be a domain of its own."
        )
    lengths = [len(images) for images in sets]
    return ImageSet(
        name=name or ",".join(names),
        class_names=first.class_names,
        labels=np.concatenate([images.labels for images in sets]),
        ids=[f"{images.name}/{identity}" for images in sets for identity in images.ids],
        load=JoinedImages([images.load for images in sets], np.cumsum([0, *lengths[:-1]]).tolist()),
        domains=[images.name for images in sets for _ in range(len(images))],
        templates=first.templates,
    )
