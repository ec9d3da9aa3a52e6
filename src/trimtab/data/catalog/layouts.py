"""The three layouts in which the paper's sets are on people's disks, each read into an image set.

- split: CoOp's folder of images and a split_zhou_*.json that says which of them are for testing;
- aircraft: FGVC-Aircraft as its authors unpack it: variants.txt names the classes, images_variant_test.txt the images;
- imagenet: a folder per class, named by WordNet id (n01440764) or by class number (0 to 999).

The classic mistake with ImageNet is a wrong class order, which gives 0 %: numbers sorted as text (0, 1, 10, 100, ...),
or labels of a 200-class subset counted in the 1,000 classes. So ids and numbers are looked up, never just counted.
"""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.data.base import FileImages, ImageSet
from trimtab.data.catalog.table import CatalogEntry
from trimtab.data.folder import Listing
from trimtab.errors import TrimtabError
from trimtab.prompts.names import distinct_names

VARIANTS: Final = "variants.txt"
CLASS_NAMES: Final = "classnames.txt"
WORDNET_ID: Final = re.compile(r"n\d{8}")


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
    return _listed_images(
        entry,
        folder,
        class_names=distinct_names([named[label] for label in range(len(named))]),
        files=[(path, label) for path, label, _ in rows],
    )


def read_aircraft(entry: CatalogEntry, folder: Path) -> ImageSet:
    """The test images with their variants."""
    place = folder if (folder / VARIANTS).is_file() else folder / "data"  # the archive keeps all in data/
    names = _lines(place / VARIANTS)
    codes = {name: code for code, name in enumerate(names)}
    files = []
    for line in _lines(place / entry.split_file):
        image, _, name = line.partition(" ")
        if name not in codes:
            raise TrimtabError(f"{place / entry.split_file} names the variant {name!r}, which {VARIANTS} does not.")
        files.append((f"{image}.jpg", codes[name]))
    return _listed_images(entry, place, tuple(names), files)


def read_imagenet(entry: CatalogEntry, folder: Path, root: Path) -> ImageSet:
    """All images of the class folders; class names from classnames.txt where there is one, else those of CLIP."""
    place = class_folder_place(entry, folder)
    if place is None:
        raise TrimtabError(_what_is_wrong(entry, folder))
    names = class_names_by_id(folder, root)
    order = list(names)  # the 1,000 ids, ascending: position = ImageNet's class number
    listing = Listing()
    found = {path.name: list(listing.images(path)) for path in listing.content(place)[0]}
    by_id = {order[int(name)] if name.isdecimal() and int(name) < len(order) else name: found[name] for name in found}
    strange = [name for name in by_id if name not in names]
    if strange or len(by_id) < len(found):
        folder_name = (strange or list(found))[0]
        raise TrimtabError(f"{place / folder_name} is not a class of ImageNet, or names one twice; move it away.")
    empty = [name for name, images in by_id.items() if not images]
    if empty:
        raise TrimtabError(f"{len(empty)} class folders of {place} hold no images, first {empty[0]}; unpack again.")
    ids = [wordnet_id for wordnet_id in order if wordnet_id in by_id]
    paths = [path for wordnet_id in ids for path in by_id[wordnet_id]]
    return ImageSet(
        name=entry.name,
        class_names=distinct_names([names[wordnet_id] for wordnet_id in ids]),
        labels=np.repeat(np.arange(len(ids)), [len(by_id[wordnet_id]) for wordnet_id in ids]).astype(np.int64),
        ids=[path.relative_to(place).as_posix() for path in paths],
        load=FileImages(paths),
        templates=entry.templates,
    )


def class_folder_place(entry: CatalogEntry, folder: Path) -> Path | None:
    """The first of the entry's image places that holds class folders."""
    for images in entry.images:
        place = folder / images
        if place.is_dir() and any(_names_a_class(path.name) for path in Listing().content(place)[0]):
            return place
    return None


def class_names_by_id(folder: Path, root: Path) -> dict[str, str]:
    """WordNet id -> class name, ids ascending."""
    for path in (folder / CLASS_NAMES, root / "imagenet" / CLASS_NAMES):
        if path.is_file():
            lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            if len(lines) != 1000 or not all(len(line) == 2 and WORDNET_ID.fullmatch(line[0]) for line in lines):
                raise TrimtabError(f"{path} must hold 1,000 lines like 'n01440764 tench'; fetch it again.")
            return {wordnet_id: name.strip() for wordnet_id, name in sorted(lines)}
    shipped = resources.files("trimtab.data.catalog").joinpath("imagenet.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t") for line in shipped.splitlines())


def _listed_images(
    entry: CatalogEntry, folder: Path, class_names: tuple[str, ...], files: list[tuple[str, int]]
) -> ImageSet:
    """An image set of files that a list names, below the first of the entry's image places that has them."""
    places = [folder / images for images in entry.images]
    place = next((place for place in places if (place / files[0][0]).is_file()), places[0])
    paths = [place / file for file, _ in files]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise TrimtabError(
            f"{len(missing)} of the {len(paths)} test images of {entry.title} are missing, first {missing[0]}; "
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
        raise TrimtabError(f"{split} is not a split file with {expected}; fetch it again.") from None
    if not checked:
        raise TrimtabError(f"{split} lists no test images; fetch it again.")
    return checked


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise TrimtabError(f"{path} is empty; unpack FGVC-Aircraft again.")
    return lines


def _names_a_class(name: str) -> bool:
    return WORDNET_ID.fullmatch(name) is not None or (name.isdecimal() and int(name) < 1000)


def _what_is_wrong(entry: CatalogEntry, folder: Path) -> str:
    for images in entry.images:
        if (folder / images).is_dir() and len(Listing().content(folder / images)[1]) > 1:
            return (
                f"The images of {folder / images} lie in one folder; sort them into class folders named by WordNet id "
                "(n01440764, ...), as the usual valprep script does."
            )
    return f"{folder} holds no class folders (n01440764, ...) in {' or '.join(entry.images)}."
