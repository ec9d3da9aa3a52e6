"""FGVC-Aircraft as its authors unpack it: variants.txt names the classes, images_variant_test.txt the test images."""

from pathlib import Path

from trimtab.data.base import ImageSet
from trimtab.data.catalog.split_layout import listed_images
from trimtab.data.catalog.table import CatalogEntry
from trimtab.errors import TrimtabError

CLASS_LIST = "variants.txt"


def read_aircraft(entry: CatalogEntry, folder: Path) -> ImageSet:
    """The test images with their variants."""
    place = folder if (folder / CLASS_LIST).is_file() else folder / "data"  # the archive keeps all in data/
    names = _lines(place / CLASS_LIST)
    codes = {name: code for code, name in enumerate(names)}
    files = []
    for line in _lines(place / entry.split_file):
        image, _, name = line.partition(" ")
        if name not in codes:
            raise TrimtabError(f"{place / entry.split_file} names the variant {name!r}, which {CLASS_LIST} does not.")
        files.append((f"{image}.jpg", codes[name]))
    return listed_images(entry, place, tuple(names), files)


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise TrimtabError(f"{path} is empty; unpack FGVC-Aircraft again.")
    return lines
