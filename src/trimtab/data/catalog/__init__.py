"""Data sets by name: the paper's 15 as they lie on people's disks, those that are fetched, and the user's own."""

from trimtab.data.catalog.disk import find_entry, find_folder, how_to_lay_out, missing_part, read_entry
from trimtab.data.catalog.load import FREE_SETS, OWN, FreeSet, load_dataset
from trimtab.data.catalog.table import CATALOG, CatalogEntry

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
