"""A list of images in a CSV or JSONL file: one path a row, with its class and its domain where there are any."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.data.base import ImageSet
from trimtab.data.labels import LABEL_FIELDS, class_list_beside, numbered_labels
from trimtab.data.sources import FileImages
from trimtab.errors import TrimtabError

SUFFIXES: Final = (".csv", ".tsv", ".jsonl")
USUAL_STEMS: Final = ("manifest", "metadata", "labels")  # found without being named, and no name for a set
# The names that people give to the columns.
PATH_COLUMNS: Final = ("path", "file", "filename", "file_name", "image", "filepath", "image_path")
DOMAIN_COLUMNS: Final = ("domain", "style")


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
            f"(row {missing[0].number}); paths count from {manifest.parent}."
        )
    labels, names = numbered_labels(
        [row.label for row in rows],
        class_names if class_names is not None else class_list_beside(manifest.parent),
        str(manifest),
        [f"Row {row.number}" for row in rows],
    )
    return ImageSet(
        name=manifest.resolve().parent.name if manifest.stem in USUAL_STEMS else manifest.stem,
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
        raise TrimtabError(f'Row {number} of {manifest} is no JSON object like {{"path": ..., "label": ...}}.')
    return {str(key): "" if value is None else str(value).strip() for key, value in found.items()}


def _column(columns: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_lower = {column.lower(): column for column in columns}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _identity(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
