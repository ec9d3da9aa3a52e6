"""Data sets by name, as a command line gives them."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from trimtab import arguments
from trimtab.data.base import ImageSet
from trimtab.data.catalog.disk import find_entry, read_entry
from trimtab.data.catalog.table import CATALOG
from trimtab.data.corruptions import corrupted, parse_corruption
from trimtab.data.fetched.cifar import cifar10, cifar100
from trimtab.data.fetched.emoji import emoji
from trimtab.data.fetched.fashion import fashion_mnist
from trimtab.data.fetched.groceries import groceries
from trimtab.data.folder import image_folder, unlabeled_images
from trimtab.data.huggingface import from_huggingface
from trimtab.data.remote import image_folder_at
from trimtab.data.webdataset import from_webdataset
from trimtab.errors import TrimtabError
from trimtab.storage import is_url


class FreeSet(NamedTuple):
    """A set that needs no preparation: it is fetched when it is asked for (CIFAR-100 must lie below the root)."""

    title: str
    classes: int
    size: int
    templates: str
    where: str
    load: Callable[[Path | None], ImageSet]


def load_dataset(name: str, root: Path | str | None = None) -> ImageSet:
    """The data set that `name` means.

    One of the paper's 15 below `root` ("caltech101"), or one that is fetched ("cifar10", "groceries", "emoji", ...),
    either of them corrupted if wanted ("cifar10+noise:3"); or the user's own ("folder:PATH", "unlabeled:PATH",
    "hf:ID_OR_FOLDER@SPLIT", "webdataset:PATH"), where "folder:" may be left out; or a folder behind a URL ("s3://...").
    """
    if is_url(name):
        return image_folder_at(name)
    kind, colon, place = arguments.text("the data set's name", name).partition(":")
    if colon and kind in OWN:
        if not place:
            raise TrimtabError(f"{name!r} names no data set; give its place after the colon.")
        return OWN[kind](place)
    base, plus, corruption = name.partition("+")
    if plus and not Path(name).expanduser().exists():  # a path may hold a plus sign
        kind, strength = parse_corruption(corruption)
        return corrupted(load_dataset(base, root), kind, strength)
    place_below = None if root is None else arguments.place("root", root)
    if (free := FREE_SETS.get(name.lower())) is not None:
        return free.load(place_below)
    entry = find_entry(name)
    if entry is None and Path(name).expanduser().exists():
        return image_folder(name)
    if entry is None and Path(name).name != name:  # a path, not a name
        raise TrimtabError(f"There is no folder or file {name}; give one, or a name that `trimtab data` lists.")
    if entry is None:
        known = ", ".join([*(e.name for e in CATALOG), *FREE_SETS, *(f"{kind}:..." for kind in OWN)])
        raise TrimtabError(f"There is no data set {name!r}; choose one of {known}.")
    if place_below is None:
        raise TrimtabError(f"{entry.title} must lie on your disk: say below which folder with --root (root=...).")
    return read_entry(entry, place_below)


def _cifar10(root: Path | None) -> ImageSet:
    present = root is not None and (root / "cifar-10-batches-bin").is_dir()
    return cifar10(root if present else None)


def _cifar100(root: Path | None) -> ImageSet:
    if root is None:
        raise TrimtabError("CIFAR-100 must lie on your disk: say below which folder with --root (root=...).")
    return cifar100(root)


FETCHED: Final = "fetched when first used"
FREE_SETS: Final[dict[str, FreeSet]] = {
    "cifar10": FreeSet("CIFAR-10", 10, 10_000, "photo", FETCHED, _cifar10),
    "cifar100": FreeSet("CIFAR-100", 100, 10_000, "photo", "cifar-100-binary/", _cifar100),
    "fashion-mnist": FreeSet("Fashion-MNIST", 10, 10_000, "photo", FETCHED, lambda root: fashion_mnist(root=root)),
    "groceries": FreeSet("Grocery photos", 14, 1_393, "photo", FETCHED, lambda _: groceries("fine")),
    "groceries-coarse": FreeSet("Grocery photos", 5, 1_393, "photo", FETCHED, lambda _: groceries("coarse")),
    "emoji": FreeSet("Emoji of 7 vendors", 360, 2_520, "emoji", FETCHED, lambda _: emoji("fine")),
    "emoji-coarse": FreeSet("Emoji of 7 vendors", 11, 2_520, "emoji", FETCHED, lambda _: emoji("coarse")),
}
OWN: Final[dict[str, Callable[[str], ImageSet]]] = {
    "folder": image_folder,
    "unlabeled": unlabeled_images,
    "hf": from_huggingface,
    "webdataset": from_webdataset,
}
