"""ImageNet and its relatives: a folder per class, named by WordNet id (n01440764) or by class number (0 to 999).

The classic mistake here is a wrong class order, which gives 0 %: numbers sorted as text (0, 1, 10, 100, ...), or labels
of a 200-class subset counted in the 1,000 classes. So ids and numbers are looked up, never just counted.
"""

import re
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.data.base import ImageSet
from trimtab.data.catalog.table import CatalogEntry
from trimtab.data.listing import Listing
from trimtab.data.sources import FileImages
from trimtab.errors import TrimtabError
from trimtab.prompts.names import distinct_names

CLASS_LIST: Final = "classnames.txt"
WORDNET_ID: Final = re.compile(r"n\d{8}")


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
        raise TrimtabError(f"{place / folder_name} is no class of ImageNet, or one named twice; move it away.")
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
    for path in (folder / CLASS_LIST, root / "imagenet" / CLASS_LIST):
        if path.is_file():
            lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            if len(lines) != 1000 or not all(len(line) == 2 and WORDNET_ID.fullmatch(line[0]) for line in lines):
                raise TrimtabError(f"{path} must hold 1,000 lines like 'n01440764 tench'; fetch it again.")
            return {wordnet_id: name.strip() for wordnet_id, name in sorted(lines)}
    shipped = resources.files("trimtab.data.catalog").joinpath("imagenet.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t") for line in shipped.splitlines())


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
