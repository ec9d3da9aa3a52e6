"""CoOp's layout: a folder of images and a split_zhou_*.json that says which of them are for testing."""

import json
from pathlib import Path

import numpy as np

from trimtab.data.base import ImageSet
from trimtab.data.catalog.table import CatalogEntry
from trimtab.data.sources import FileImages
from trimtab.errors import TrimtabError
from trimtab.prompts.names import distinct_names


def read_split(entry: CatalogEntry, folder: Path) -> ImageSet:
    """The test part of the split: its images in its order, its labels and its class names."""
    split = folder / entry.split_file
    rows = _test_rows(split)
    named: dict[int, str] = {}
    for _, label, name in rows:
        if named.setdefault(label, name) != name:
            raise TrimtabError(f"{split} gives class {label} two names, {named[label]!r} and {name!r}; fetch it again.")
    if sorted(named) != list(range(len(named))):
        raise TrimtabError(f"The classes in {split} are not numbered 0 to {len(named) - 1}; fetch it again.")
    return listed_images(
        entry,
        folder,
        class_names=distinct_names([named[label] for label in range(len(named))]),
        files=[(path, label) for path, label, _ in rows],
    )


def listed_images(
    entry: CatalogEntry, folder: Path, class_names: tuple[str, ...], files: list[tuple[str, int]]
) -> ImageSet:
    """An image set of files that a list names, below the first of the entry's image places that has them."""
    places = [folder / images for images in entry.images]
    place = next((place for place in places if (place / files[0][0]).is_file()), places[0])
    paths = [place / file for file, _ in files]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise TrimtabError(
            f"{len(missing)} of the {len(paths)} test images of {entry.title} are not there, first {missing[0]}; "
            f"unpack the images again, or see `trimtab data {entry.name}` for the layout."
        )
    return ImageSet(
        name=entry.name,
        class_names=class_names,
        labels=np.array([label for _, label in files], dtype=np.int64),
        ids=[file for file, _ in files],
        load=FileImages(paths),
        templates=entry.templates,
    )


def _test_rows(split: Path) -> list[tuple[str, int, str]]:
    try:
        rows = json.loads(split.read_text(encoding="utf-8"))["test"]
        checked = [(str(path), int(label), str(name)) for path, label, name in rows]
    except (ValueError, KeyError, TypeError):
        expected = '"test": [[path, label, class], ...]'
        raise TrimtabError(f"{split} is no split file with {expected}; fetch it again.") from None
    if not checked:
        raise TrimtabError(f"{split} lists no test images; fetch it again.")
    return checked
