"""A user's own images: a folder per class, or a list of files with labels, or just images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.data.base import UNLABELED, ImageSet
from trimtab.data.listing import Listing
from trimtab.data.manifest import SUFFIXES, USUAL_STEMS, from_manifest
from trimtab.data.sources import FileImages
from trimtab.errors import TrimtabError
from trimtab.files import say
from trimtab.prompts.names import words_of

MANIFESTS: Final = tuple(stem + suffix for stem in USUAL_STEMS for suffix in SUFFIXES)
SPLITS: Final = frozenset(("train", "training", "val", "valid", "validation", "test", "testing"))


def image_folder(folder: Path | str, class_names: Sequence[str] | None = None) -> ImageSet:
    """The images of a folder, labeled as its content says.

    A manifest (given itself, or inside as manifest.csv, labels.jsonl, ...) decides; else each subfolder is a class;
    else the images are unlabeled. `class_names` fixes the classes and their order; without it they are in natural
    order ("2" before "10").
    """
    place = Path(folder).expanduser()
    if place.is_file() and place.suffix.lower() in SUFFIXES:
        return from_manifest(place, class_names)
    if not place.is_dir():
        raise TrimtabError(f"{place} is neither a folder nor a manifest ({', '.join(SUFFIXES)}).")
    inside = [place / name for name in MANIFESTS if (place / name).is_file()]
    if len(inside) > 1:
        raise TrimtabError(f"{place} holds {inside[0].name} and {inside[1].name}; name the one to use, or keep one.")
    if inside:
        return from_manifest(inside[0], class_names)
    if Listing().content(place)[0]:
        return _class_per_folder(place, class_names)
    return unlabeled_images(place, class_names)


def unlabeled_images(folder: Path | str, class_names: Sequence[str] | None = None) -> ImageSet:
    """All images below a folder, whatever its subfolders mean, without labels."""
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise TrimtabError(f"{place} is no folder.")
    listing = Listing()
    paths = list(listing.images(place))
    if not paths:
        raise TrimtabError(f"There are no images in {place}.")
    listing.say_what_was_skipped(place)
    return ImageSet(
        name=place.resolve().name,
        class_names=tuple(class_names or ()),
        labels=np.full(len(paths), UNLABELED, dtype=np.int64),
        ids=[path.relative_to(place).as_posix() for path in paths],
        load=FileImages(paths),
    )


def _class_per_folder(place: Path, class_names: Sequence[str] | None) -> ImageSet:
    listing = Listing()
    folders, strays = listing.content(place)
    if {path.name.lower() for path in folders} <= SPLITS:
        raise TrimtabError(
            f"The folders of {place} look like splits, not classes; point at one of them, such as {folders[-1]}."
        )
    by_class = {path.name: list(listing.images(path)) for path in folders}
    empty = [name for name, paths in by_class.items() if not paths]
    if empty:
        raise TrimtabError(
            f"{place / empty[0]} holds no images ({len(empty)} of {len(by_class)} class folders are empty); "
            "put images there, or remove the folder."
        )
    names = _checked_names(place, list(by_class), class_names)
    listing.say_what_was_skipped(place)
    if strays:
        say(f"Skipped {len(strays)} images that lie beside the class folders of {place}, such as {strays[0].name}.")
    paths = [path for name in names for path in by_class.get(name, ())]
    return ImageSet(
        name=place.resolve().name,
        class_names=names,
        labels=np.repeat(np.arange(len(names)), [len(by_class.get(name, ())) for name in names]).astype(np.int64),
        ids=[path.relative_to(place).as_posix() for path in paths],
        load=FileImages(paths),
    )


def _checked_names(place: Path, folders: Sequence[str], class_names: Sequence[str] | None) -> tuple[str, ...]:
    spelled: dict[str, str] = {}
    for name in folders:
        other = spelled.setdefault(words_of(name).casefold(), name)
        if other != name:
            raise TrimtabError(
                f"{place} holds the folders {other!r} and {name!r}, which name the same class; join them."
            )
    if class_names is None:
        return tuple(folders)
    strange = [name for name in folders if name not in class_names]
    if strange:
        raise TrimtabError(
            f"{place / strange[0]} is none of the {len(class_names)} classes given; rename or remove it."
        )
    return tuple(class_names)
