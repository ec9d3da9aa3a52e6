"""The 15 sets of the paper on the user's disk: found by name, read by layout, checked against the paper's table."""

from pathlib import Path

from trimtab.data.base import ImageSet
from trimtab.data.catalog.layouts import VARIANTS, class_folder_place, read_aircraft, read_imagenet, read_split
from trimtab.data.catalog.table import CATALOG, CatalogEntry
from trimtab.errors import TrimtabError
from trimtab.files import say


def find_entry(name: str) -> CatalogEntry | None:
    """The set of this name or alias, whatever its case, hyphens and underscores."""
    wanted = _plain(name)
    return next((e for e in CATALOG if wanted in {_plain(known) for known in (e.name, e.title, *e.aliases)}), None)


def find_folder(entry: CatalogEntry, root: Path) -> Path | None:
    """Where the set lies below `root`: in one of its usual folders, whatever their case, hyphens and underscores."""
    if not root.is_dir():
        return None
    by_plain = {_plain(path.name): path for path in sorted(root.iterdir()) if path.is_dir()}
    places = [by_plain[_plain(name)] for name in (*entry.folders, entry.name) if _plain(name) in by_plain]
    return next((place for place in places if missing_part(entry, place) is None), places[0] if places else None)


def missing_part(entry: CatalogEntry, folder: Path) -> str | None:
    """What the set's folder lacks, in a few words; None when it has its parts (images are not counted here)."""
    match entry.layout:
        case "imagenet":
            return None if class_folder_place(entry, folder) else f"class folders in {entry.images[0]}"
        case "aircraft":
            wanted = [[VARIANTS, f"data/{VARIANTS}"], [entry.split_file, f"data/{entry.split_file}"]]
        case "split":
            wanted = [[entry.split_file], [images for images in entry.images if images != "."] or ["."]]
    lacking = [names[0] for names in wanted if not any((folder / name).exists() for name in names)]
    return " and ".join(lacking) or None


def read_entry(entry: CatalogEntry, root: Path) -> ImageSet:
    """The test images of a set below `root`, checked: another class count is refused, an image count reported."""
    folder = find_folder(entry, root)
    lacking = f"a folder {entry.folders[0]}" if folder is None else missing_part(entry, folder)
    if folder is not None and entry.layout == "imagenet":
        lacking = None  # its reader can say more precisely what is wrong
    if folder is None or lacking is not None:
        raise TrimtabError(
            f"{entry.title} is not complete below {root}: it lacks {lacking}; "
            f"`trimtab data {entry.name}` shows how to lay it out."
        )
    match entry.layout:
        case "split":
            images = read_split(entry, folder)
        case "aircraft":
            images = read_aircraft(entry, folder)
        case "imagenet":
            images = read_imagenet(entry, folder, root)
    if len(images.class_names) != entry.classes:
        raise TrimtabError(
            f"{folder} holds {len(images.class_names)} classes but {entry.title} has {entry.classes}; "
            "a part is missing, or it is another set."
        )
    if len(images) != entry.test_size:
        say(f"{folder} holds {len(images):,} test images; the paper's {entry.title} has {entry.test_size:,}.")
    return images


def how_to_lay_out(entry: CatalogEntry) -> str:
    """The folders and files that the set needs below the root, as a small tree."""
    folder, images = entry.folders[0], entry.images[0]
    inside = "" if images == "." else f"{images}/"
    match entry.layout:
        case "split":
            rows = [f"{inside or 'cars_train/, cars_test/'}", entry.split_file]
        case "aircraft":
            rows = [inside, VARIANTS, entry.split_file]
        case "imagenet":
            classes = "0/ ... 999/" if entry.name == "imagenet-v2" else f"n*/ ({entry.classes:,} class folders)"
            rows = [f"{inside}{classes}", "classnames.txt (optional, CoOp's; CLIP's class names are built in)"]
    return "\n".join([f"{folder}/", *(f"    {row}" for row in rows)])


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(" ", "")
