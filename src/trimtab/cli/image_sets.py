"""Which images a user means: a data set by its name, or a folder."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.data.base import ImageSet


def image_set_of(data: str, root: Path | None) -> "ImageSet":
    """The set of that name, or the folder at that path."""
    from trimtab.data.catalog import FREE_SETS, find_entry, load_dataset

    known = find_entry(data) is not None or data.lower() in FREE_SETS
    is_path = not known and Path(data).expanduser().exists()
    return load_dataset(f"folder:{data}" if is_path else data, root)
