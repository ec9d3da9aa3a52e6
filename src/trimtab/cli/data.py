"""`trimtab data`: which data sets there are, which of them are here, and how to lay out the others."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.options import Json, Root

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.data.base import ImageSet
    from trimtab.data.catalog import CatalogEntry

PIPED_WIDTH = 120  # a table in a file or a pipe has no terminal to fit


def data(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A data set to read and describe.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    r"""List the data sets, and which of them are present below --root.

    With a NAME, read that data set, check it against the paper's table and show what it holds.

    \b
    Examples:
      trimtab data --root /data
      trimtab data eurosat --root /data
      trimtab data photos/
    """
    from rich.console import Console

    from trimtab.data.catalog import find_entry, find_folder, how_to_lay_out, missing_part
    from trimtab.errors import TrimtabError

    if root is not None and not root.expanduser().is_dir():
        raise TrimtabError(f"--root {root} is not a folder.")
    place = root.expanduser() if root is not None else None
    if json:
        return _show_json(name, place)
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    if name is None:
        _list(console, place)
        return
    entry = find_entry(name)
    if entry is not None:
        folder = find_folder(entry, place) if place is not None else None
        if folder is None or missing_part(entry, folder) is not None:
            console.print(f"{entry.title}: {entry.classes:,} classes, {entry.test_size:,} test images")
            console.print(
                f"Below the folder that you give as --root it needs:\n{how_to_lay_out(entry)}", soft_wrap=True
            )
            if place is not None:
                raise TrimtabError(f"{entry.title} is not complete below {place}: it lacks {_lacking(entry, place)}.")
            return
    _describe(console, name, place)


def _show_json(name: str | None, root: Path | None) -> None:
    """Every known data set and what it lacks below the root, or what one holds."""
    from trimtab.cli.output import show_json
    from trimtab.data.catalog import CATALOG, FREE_SETS, load_dataset

    if name is not None:
        show_json(_facts(load_dataset(name, root)))
        return
    paper = [
        {
            "name": entry.name,
            "title": entry.title,
            "classes": entry.classes,
            "images": entry.test_size,
            "templates": entry.templates,
            "folder": entry.folders[0],
            "lacks": None if root is None else _lacking(entry, root),
        }
        for entry in CATALOG
    ]
    free = [
        {
            "name": key,
            "title": s.title,
            "classes": s.classes,
            "images": s.size,
            "templates": s.templates,
            "where": s.where,
        }
        for key, s in FREE_SETS.items()
    ]
    show_json({"of_the_paper": paper, "others": free})


def _facts(images: "ImageSet") -> dict[str, Any]:
    import numpy as np

    labeled = images.labels[images.labels >= 0]
    return {
        "name": images.name,
        "images": len(images),
        "unlabeled": len(images) - len(labeled),
        "templates": images.templates,
        "class_names": list(images.class_names),
        "images_per_class": np.bincount(labeled, minlength=len(images.class_names)).tolist() if len(labeled) else [],
        "domains": list(dict.fromkeys(images.domains)) if images.domains else [],
    }


def _list(console: "Console", root: Path | None) -> None:
    from rich.table import Table

    from trimtab.data.catalog import CATALOG, FREE_SETS, OWN, how_to_lay_out

    table = Table("name", box=None, pad_edge=False)
    table.add_column("classes", justify="right")
    table.add_column("test images", justify="right")
    table.add_column("templates")
    table.add_column("folder below --root" if root is None else "below --root", overflow="fold")
    missing = []
    for entry in CATALOG:
        lacking = _lacking(entry, root) if root is not None else ""
        where = f"{entry.folders[0]}/" if root is None else f"missing {lacking}" if lacking else "present"
        missing += [entry] if lacking else []
        table.add_row(entry.name, f"{entry.classes:,}", f"{entry.test_size:,}", entry.templates, where)
    for free_name, free in FREE_SETS.items():
        table.add_row(free_name, f"{free.classes:,}", f"{free.size:,}", free.templates, free.where)
    console.print(table)
    console.print(f"\nYour own: {', '.join(f'{kind}:...' for kind in OWN)}", soft_wrap=True)
    console.print("Under a shift: NAME+noise:3, or blur, contrast, jpeg at a strength of 1 to 5", soft_wrap=True)
    if missing:
        console.print(f"\nHow to lay out what is missing, below {root}:", soft_wrap=True)
        for entry in missing:
            console.print(how_to_lay_out(entry), soft_wrap=True)


def _lacking(entry: "CatalogEntry", root: Path) -> str:
    from trimtab.data.catalog import find_folder, missing_part

    folder = find_folder(entry, root)
    return f"{entry.folders[0]}/" if folder is None else missing_part(entry, folder) or ""


def _describe(console: "Console", name: str, root: Path | None) -> None:
    import numpy as np

    from trimtab.data.catalog import load_dataset

    images = load_dataset(name, root)
    labeled = images.labels[images.labels >= 0]
    classes = len(images.class_names)
    lines = [f"{images.name}: {len(images):,} images, {classes:,} classes, templates {images.templates}"]
    if len(labeled):
        counts = np.bincount(labeled, minlength=classes)
        lines += [f"Images per class: {counts.min():,} to {counts.max():,}; unlabeled: {len(images) - len(labeled):,}"]
    if images.class_names:
        lines += [f"Classes: {', '.join(images.class_names[:8])}{', ...' if classes > 8 else ''}"]
    if images.domains:
        lines += [f"Domains: {', '.join(dict.fromkeys(images.domains))}"]
    console.print("\n".join([*lines, f"First image: {images.ids[0]}"]), soft_wrap=True)
