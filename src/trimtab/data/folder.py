"""A user's own images: a folder per class, or a list of files with labels, or just images.

Everything is listed in natural order, which is the same on every machine.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from trimtab import arguments
from trimtab.data.base import LABEL_FIELDS, UNLABELED, FileImages, ImageSet, class_list_beside, natural, numbered_labels
from trimtab.errors import TrimtabError
from trimtab.files import say
from trimtab.prompts.names import words_of

IMAGE_SUFFIXES: Final = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
)
NOT_CLASSES: Final = frozenset(("__MACOSX", "__pycache__"))  # folders that unpacking and running leave behind
SPLITS: Final = frozenset(("train", "training", "val", "valid", "validation", "test", "testing"))
MANIFEST_SUFFIXES: Final = (".csv", ".tsv", ".jsonl")
MANIFEST_STEMS: Final = ("manifest", "metadata", "labels")  # found without being named; a set is not called so
# The names that people give to the columns.
PATH_COLUMNS: Final = ("path", "file", "filename", "file_name", "image", "filepath", "image_path")
DOMAIN_COLUMNS: Final = ("domain", "style")
MANIFESTS: Final = tuple(stem + suffix for stem in MANIFEST_STEMS for suffix in MANIFEST_SUFFIXES)


def image_folder(folder: Path | str, class_names: Sequence[str] | None = None) -> ImageSet:
    """The images of a folder, labeled as its content says.

    A manifest (given itself, or inside as manifest.csv, labels.jsonl, ...) decides; else each subfolder is a class;
    else the images are unlabeled. `class_names` fixes the classes and their order; without it they are in natural
    order ("2" before "10").
    """
    place = arguments.place("folder", folder)
    class_names = None if class_names is None else arguments.names("class_names", class_names)
    if place.is_file() and place.suffix.lower() in MANIFEST_SUFFIXES:
        return from_manifest(place, class_names)
    if not place.is_dir():
        raise TrimtabError(f"{place} is neither a folder nor a manifest ({', '.join(MANIFEST_SUFFIXES)}).")
    inside = [place / name for name in MANIFESTS if (place / name).is_file()]
    if len(inside) > 1:
        raise TrimtabError(f"{place} holds {inside[0].name} and {inside[1].name}; name the one to use, or keep one.")
    if inside:
        return from_manifest(inside[0], class_names)
    if Listing().content(place)[0]:
        return _class_per_folder(place, class_names)
    return unlabeled_images(place, class_names)


def unlabeled_images(folder: Path | str, class_names: Sequence[str] | None = None) -> ImageSet:
    """All images below a folder, whatever its subfolders mean, without labels."""
    place = arguments.place("folder", folder)
    class_names = None if class_names is None else arguments.names("class_names", class_names)
    if not place.is_dir():
        raise TrimtabError(f"{place} is not a folder.")
    listing = Listing()
    paths = list(listing.images(place))
    if not paths:
        raise TrimtabError(f"There are no images in {place}.")
    listing.say_what_was_skipped(place)
    return ImageSet(
        name=place.resolve().name,
        class_names=tuple(class_names or ()),
        labels=np.full(len(paths), UNLABELED, dtype=np.int64),
        ids=[path.relative_to(place).as_posix() for path in paths],
        load=FileImages(paths),
    )


def _class_per_folder(place: Path, class_names: Sequence[str] | None) -> ImageSet:
    listing = Listing()
    folders, strays = listing.content(place)
    if {path.name.lower() for path in folders} <= SPLITS:
        raise TrimtabError(
            f"The folders of {place} look like splits, not classes; point at one of them, such as {folders[-1]}."
        )
    by_class = {path.name: list(listing.images(path)) for path in folders}
    empty = [name for name, paths in by_class.items() if not paths]
    if empty:
        raise TrimtabError(
            f"{place / empty[0]} holds no images ({len(empty)} of {len(by_class)} class folders are empty); "
            "put images there, or remove the folder."
        )
    names = _checked_names(place, list(by_class), class_names)
    listing.say_what_was_skipped(place)
    if strays:
        say(f"Skipped {len(strays)} images that lie beside the class folders of {place}, such as {strays[0].name}.")
    paths = [path for name in names for path in by_class.get(name, ())]
    return ImageSet(
        name=place.resolve().name,
        class_names=names,
        labels=np.repeat(np.arange(len(names)), [len(by_class.get(name, ())) for name in names]).astype(np.int64),
        ids=[path.relative_to(place).as_posix() for path in paths],
        load=FileImages(paths),
    )


def _checked_names(place: Path, folders: Sequence[str], class_names: Sequence[str] | None) -> tuple[str, ...]:
    spelled: dict[str, str] = {}
    for name in folders:
        other = spelled.setdefault(words_of(name).casefold(), name)
        if other != name:
            raise TrimtabError(
                f"{place} holds the folders {other!r} and {name!r}, which name the same class; merge them."
            )
    if class_names is None:
        return tuple(folders)
    strange = [name for name in folders if name not in class_names]
    if strange:
        raise TrimtabError(
            f"{place / strange[0]} is not one of the {len(class_names)} classes given; rename or remove it."
        )
    return tuple(class_names)


@dataclass(frozen=True)
class _Row:
    number: int
    path: Path
    label: str
    domain: str


def from_manifest(manifest: Path, class_names: Sequence[str] | None = None) -> ImageSet:
    """The images that the manifest lists, in its order; paths count from the manifest's folder.

    Classes are `class_names`, or the lines of classes.txt beside the manifest, or the labels themselves in natural
    order. Numbers as labels are positions in such a list. An empty label means that the image is unlabeled.
    """
    rows = _rows(manifest)
    missing = [row for row in rows if not row.path.is_file()]
    if missing:
        raise TrimtabError(
            f"{manifest} lists {len(missing)} of {len(rows)} images that are not there, first {missing[0].path} "
            f"(row {missing[0].number}); paths count from {manifest.parent.resolve()}."
        )
    labels, names = numbered_labels(
        [row.label for row in rows],
        class_names if class_names is not None else class_list_beside(manifest.parent),
        str(manifest),
        [f"Row {row.number}" for row in rows],
    )
    return ImageSet(
        name=manifest.resolve().parent.name if manifest.stem in MANIFEST_STEMS else manifest.stem,
        class_names=names,
        labels=labels,
        ids=[_identity(row.path, manifest.parent) for row in rows],
        load=FileImages([row.path for row in rows]),
        domains=[row.domain for row in rows] if any(row.domain for row in rows) else None,
    )


def _rows(manifest: Path) -> list[_Row]:
    records = _records(manifest)
    if not records:
        raise TrimtabError(f"{manifest} lists no images.")
    columns = list(records[0][1])
    path_column = _column(columns, PATH_COLUMNS)
    if path_column is None:
        found = ", ".join(columns) or "none"
        raise TrimtabError(f"{manifest} has no column with paths: name one {PATH_COLUMNS[0]!r} (its columns: {found}).")
    label_column, domain_column = _column(columns, LABEL_FIELDS), _column(columns, DOMAIN_COLUMNS)
    rows, seen = [], dict[Path, int]()
    for number, record in records:
        if not record.get(path_column):
            raise TrimtabError(f"Row {number} of {manifest} gives no {path_column}.")
        path = manifest.parent / Path(record[path_column]).expanduser()
        if (before := seen.setdefault(path, number)) != number:
            raise TrimtabError(f"{manifest} lists {path} twice, in rows {before} and {number}; keep one.")
        label = record.get(label_column or "", "")
        rows.append(_Row(number, path, label, record.get(domain_column or "", "")))
    return rows


def _records(manifest: Path) -> list[tuple[int, dict[str, str]]]:
    """Row numbers as an editor shows them, and the columns as text."""
    try:
        text = manifest.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TrimtabError(f"The manifest {manifest} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TrimtabError(f"The manifest {manifest} is not UTF-8 text; save it as UTF-8.") from None
    if manifest.suffix.lower() == ".jsonl":
        return [(number, _object(line, number, manifest)) for number, line in enumerate(text.splitlines(), 1) if line]
    reader = csv.DictReader(text.splitlines(), delimiter="\t" if manifest.suffix.lower() == ".tsv" else ",")
    return [
        (reader.line_num, {key.strip(): (value or "").strip() for key, value in record.items() if isinstance(key, str)})
        for record in reader
    ]


def _object(line: str, number: int, manifest: Path) -> dict[str, str]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TrimtabError(f'Row {number} of {manifest} is not a JSON object like {{"path": ..., "label": ...}}.')
    return {str(key): "" if value is None else str(value).strip() for key, value in found.items()}


def _column(columns: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_lower = {column.lower(): column for column in columns}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _identity(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def is_image(path: Path) -> bool:
    """Whether the name ends like an image's, in whatever case."""
    return path.suffix.lower() in IMAGE_SUFFIXES


@dataclass
class Listing:
    """Lists folders and remembers what it passed over, to be reported once at the end."""

    hidden: int = 0
    others: list[Path] = field(default_factory=list)

    def content(self, folder: Path) -> tuple[list[Path], list[Path]]:
        """The folders and the images directly below, each in natural order."""
        try:
            everything = list(folder.iterdir())
        except OSError as error:
            raise TrimtabError(f"The folder {folder} cannot be listed: {error.strerror}.") from None
        seen = [path for path in everything if not path.name.startswith(".") and path.name not in NOT_CLASSES]
        self.hidden += len(everything) - len(seen)
        folders: list[Path] = []
        images: list[Path] = []
        for path in sorted(seen, key=lambda path: natural(path.name)):
            if path.is_dir():
                folders.append(path)
            else:
                (images if is_image(path) else self.others).append(path)
        return folders, images

    def images(self, folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
        """All image files below: a folder's own before those of its subfolders. `above`: the folders we are in."""
        real = folder.resolve()
        if real in above:  # a link that leads back
            return
        folders, images = self.content(folder)
        yield from images
        for inner in folders:
            yield from self.images(inner, (*above, real))

    def say_what_was_skipped(self, folder: Path) -> None:
        """One sentence about files that are not images, if there were any."""
        skipped = [f"{len(self.others)} that are not images (such as {self.others[0].name})"] if self.others else []
        skipped += [f"{self.hidden} hidden"] if self.hidden else []
        if skipped:
            say(f"Skipped files in {folder}: {' and '.join(skipped)}.")
