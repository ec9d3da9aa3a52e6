"""The 15 sets of the paper, as data: sizes from its table, templates from its table, layouts as the field has them."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class CatalogEntry:
    """One set. `folders` are names below the root and `images` places below such a folder, most usual first."""

    name: str
    title: str
    classes: int
    test_size: int
    templates: str
    layout: Literal["split", "aircraft", "imagenet"]
    folders: tuple[str, ...]
    images: tuple[str, ...]
    split_file: str = ""
    aliases: tuple[str, ...] = ()


CATALOG: Final = (
    CatalogEntry(
        name="caltech101",
        title="Caltech101",
        classes=100,
        test_size=2_465,
        templates="photo",
        layout="split",
        folders=("caltech-101",),
        images=("101_ObjectCategories", "."),
        split_file="split_zhou_Caltech101.json",
        aliases=("caltech",),
    ),
    CatalogEntry(
        name="dtd",
        title="DTD",
        classes=47,
        test_size=1_692,
        templates="texture",
        layout="split",
        folders=("dtd", "DescribableTextures"),
        images=("images", "."),
        split_file="split_zhou_DescribableTextures.json",
        aliases=("textures",),
    ),
    CatalogEntry(
        name="eurosat",
        title="EuroSAT",
        classes=10,
        test_size=8_100,
        templates="satellite",
        layout="split",
        folders=("eurosat",),
        images=("2750", "."),
        split_file="split_zhou_EuroSAT.json",
    ),
    CatalogEntry(
        name="fgvc-aircraft",
        title="FGVCAircraft",
        classes=100,
        test_size=3_333,
        templates="aircraft",
        layout="aircraft",
        folders=("fgvc_aircraft", "fgvc-aircraft-2013b", "aircraft"),
        images=("images",),
        split_file="images_variant_test.txt",
        aliases=("aircraft", "fgvc"),
    ),
    CatalogEntry(
        name="flowers102",
        title="Flowers102",
        classes=102,
        test_size=2_463,
        templates="flower",
        layout="split",
        folders=("oxford_flowers", "flowers102", "flower102"),
        images=("jpg", "."),
        split_file="split_zhou_OxfordFlowers.json",
        aliases=("flowers", "flower102", "oxford-flowers"),
    ),
    CatalogEntry(
        name="food101",
        title="Food101",
        classes=101,
        test_size=30_300,
        templates="food",
        layout="split",
        folders=("food-101",),
        images=("images", "."),
        split_file="split_zhou_Food101.json",
        aliases=("food",),
    ),
    CatalogEntry(
        name="imagenet",
        title="ImageNet",
        classes=1_000,
        test_size=50_000,
        templates="imagenet7",
        layout="imagenet",
        folders=("imagenet",),
        images=("images/val", "val"),
        aliases=("imagenet-val", "i"),
    ),
    CatalogEntry(
        name="oxford-pets",
        title="OxfordPets",
        classes=37,
        test_size=3_669,
        templates="pet",
        layout="split",
        folders=("oxford_pets", "pets"),
        images=("images", "."),
        split_file="split_zhou_OxfordPets.json",
        aliases=("pets",),
    ),
    CatalogEntry(
        name="stanford-cars",
        title="StanfordCars",
        classes=196,
        test_size=8_041,
        templates="photo",
        layout="split",
        folders=("stanford_cars", "cars"),
        images=(".",),
        split_file="split_zhou_StanfordCars.json",
        aliases=("cars",),
    ),
    CatalogEntry(
        name="sun397",
        title="SUN397",
        classes=397,
        test_size=19_850,
        templates="photo",
        layout="split",
        folders=("sun397",),
        images=("SUN397", "."),
        split_file="split_zhou_SUN397.json",
        aliases=("sun",),
    ),
    CatalogEntry(
        name="ucf101",
        title="UCF101",
        classes=101,
        test_size=3_783,
        templates="action",
        layout="split",
        folders=("ucf101",),
        images=("UCF-101-midframes", "."),
        split_file="split_zhou_UCF101.json",
        aliases=("ucf",),
    ),
    CatalogEntry(
        name="imagenet-v2",
        title="ImageNet-V2",
        classes=1_000,
        test_size=10_000,
        templates="imagenet7",
        layout="imagenet",
        folders=("imagenetv2",),
        images=("imagenetv2-matched-frequency-format-val", "imagenetv2-matched-frequency", "."),
        aliases=("v",),
    ),
    CatalogEntry(
        name="imagenet-a",
        title="ImageNet-A",
        classes=200,
        test_size=7_500,
        templates="imagenet7",
        layout="imagenet",
        folders=("imagenet-adversarial", "imagenet-a"),
        images=("imagenet-a", "."),
        aliases=("imagenet-adversarial", "a"),
    ),
    CatalogEntry(
        name="imagenet-r",
        title="ImageNet-R",
        classes=200,
        test_size=30_000,
        templates="imagenet7",
        layout="imagenet",
        folders=("imagenet-rendition", "imagenet-r"),
        images=("imagenet-r", "."),
        aliases=("imagenet-rendition", "r"),
    ),
    CatalogEntry(
        name="imagenet-sketch",
        title="ImageNet-S",
        classes=1_000,
        test_size=50_889,  # the paper's table prints 50,899; the published set has 50,889
        templates="imagenet7",
        layout="imagenet",
        folders=("imagenet-sketch",),
        images=("images", "sketch", "."),
        aliases=("imagenet-s", "imagenet-k", "sketch", "k", "s"),
    ),
)
