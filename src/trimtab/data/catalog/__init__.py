"""Data sets by name: the paper's 15 as they lie on people's disks, those that are fetched, and the user's own."""

from trimtab.data.catalog import (
    CATALOG,
    FREE_SETS,
    OWN,
    CatalogEntry,
    FreeSet,
    find_entry,
    find_folder,
    how_to_lay_out,
    load_dataset,
    missing_part,
    read_entry,
)

__all__ = [
    "CATALOG",
    "FREE_SETS",
    "OWN",
    "CatalogEntry",
    "FreeSet",
    "find_entry",
    "find_folder",
    "how_to_lay_out",
    "load_dataset",
    "missing_part",
    "read_entry",
]
