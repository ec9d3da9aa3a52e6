"""Stores for a blind test: sets that nobody looked at while methods were made, and other images of sets that were.

    python -m benchmarks.fusion_study.unseen FOLDER

writes one .npz per store, through the encoder `lite`. Clip art (Debian's openclipart-png) and stamps for a children's
drawing program (tuxpaint-stamps-default: mostly photographs) are labeled by the folders that they come in. Classes were
written down from the names and sizes of the folders, before any image was classified.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.command_line import FOLDER, run_study
from benchmarks.fusion_study.stores import encode
from trimtab.data.base import FileImages, ImageSet
from trimtab.data.corruptions import corrupted
from trimtab.data.fetched.cifar import cifar10
from trimtab.data.fetched.fashion import fashion_mnist
from trimtab.data.fetched.fetch import with_apt
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError

LARGEST = 500_000  # bytes of a file: a few pictures are posters of more than 100 million pixels

# class -> folder, whose pictures count without those of its subfolders
CLIP_ART_FINE = {
    "mammal": "animals/mammals",
    "insect": "animals/bugs",
    "bird": "animals/birds",
    "fruit": "food/fruit",
    "dessert": "food/desserts",
    "beverage": "food/beverages",
    "meat or eggs": "food/meats_and_eggs",
    "bread or pasta": "food/breads_and_carbs",
    "flower": "plants/flowers",
    "musical instrument": "recreation/music",
    "sport": "recreation/sports",
    "party": "recreation/party",
    "toy": "recreation/toys",
    "playing card": "recreation/games/cards/white",
    "vehicle": "transportation/vehicles",
    "boat": "transportation/boating",
    "road sign": "transportation/roadsigns",
    "house": "buildings/homes",
    "weapon": "tools/weapons",
    "tool": "tools",
    "person": "people",
    "smiley": "people/smilies",
    "body part": "people/bodypart",
    "flag": "signs_and_symbols/flags/europe",
    "weather symbol": "signs_and_symbols/weather",
    "computer hardware": "computer/hardware",
    "arrow": "shapes/arrows",
    "puzzle piece": "shapes/jigsaw",
}
# class -> folder, with its subfolders
CLIP_ART_COARSE = {
    "animal": "animals",
    "food": "food",
    "plant": "plants",
    "vehicle": "transportation/vehicles",
    "building": "buildings",
    "person": "people",
    "tool": "tools",
    "musical instrument": "recreation/music",
    "sport": "recreation/sports",
    "flag": "signs_and_symbols/flags",
    "computer": "computer/hardware",
}
STAMPS_FINE = {
    "mammal": "animals/mammals",
    "bird": "animals/birds",
    "insect": "animals/insects",
    "fish": "animals/fish",
    "fruit": "food/fruit",
    "vegetable": "food/vegetables",
    "flower": "plants/flowers",
    "tree": "plants/trees",
    "house": "town/houses",
    "road sign": "town/roadsigns",
    "monument": "town/monuments",
    "money": "symbols/money",
    "letter": "symbols/alphabets",
    "chess piece": "symbols/chess",
    "christmas decoration": "seasonal/christmas",
    "halloween decoration": "seasonal/halloween",
    "musical instrument": "hobbies/music",
    "tool": "household/tools",
    "dishes": "household/dishes",
    "clothes": "clothes",
    "vehicle": "vehicles",
    "planet": "space/planets",
}


# Debian's package and where its pictures lie -> store -> classes, and which files of their folders
PACKED = {
    ("openclipart-png", "usr/share/openclipart/png"): {
        "unseen_clip_art_fine": (CLIP_ART_FINE, "*.png"),
        "unseen_clip_art_coarse": (CLIP_ART_COARSE, "**/*.png"),
    },
    ("tuxpaint-stamps-default", "usr/share/tuxpaint/stamps"): {"unseen_stamps": (STAMPS_FINE, "**/*.png")},
}


def build(folder: Path, encoder: Encoder | None = None) -> None:
    """Write every store that is not in the folder yet, through `lite` or another encoder."""
    folder.mkdir(parents=True, exist_ok=True)
    for (package, inside), stores in PACKED.items():
        if all((folder / f"{name}.npz").exists() for name in stores):
            continue
        with tempfile.TemporaryDirectory() as place:
            root = _unpacked(package, Path(place)) / inside
            for name, (classes, pattern) in stores.items():
                encode(folder, name, _pictures(root, classes, pattern), encoder=encoder)
    encode(folder, "unseen_fashion", fashion_mnist("train"), most=3000, encoder=encoder)
    train = cifar10(split="train")
    encode(folder, "unseen_cifar10", train, most=4000, encoder=encoder)
    for kind, strength in (("noise", 3), ("blur", 5), ("contrast", 5)):
        encode(folder, f"unseen_cifar10_{kind}", corrupted(train, kind, strength), most=4000, encoder=encoder)


def _unpacked(package: str, scratch: Path) -> Path:
    try:
        return with_apt(package, scratch)
    except OSError as error:
        raise TrimtabError(f"Debian's package {package} did not come: {error}.") from None


def _pictures(root: Path, classes: Mapping[str, str], pattern: str) -> ImageSet:
    found = [
        (path, label)
        for label, part in enumerate(classes.values())
        for path in sorted((root / part).glob(pattern))
        if path.stat().st_size <= LARGEST
    ]
    return ImageSet(
        name=root.name,
        class_names=tuple(classes),
        labels=np.array([label for _, label in found]),
        ids=[str(path) for path, _ in found],
        load=FileImages([path for path, _ in found]),
    )


if __name__ == "__main__":
    run_study(build, __doc__, FOLDER)
