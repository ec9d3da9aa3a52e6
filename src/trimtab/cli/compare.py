"""`trimtab compare`: two benchmarks side by side, image by image."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trimtab.cli.options import Json

if TYPE_CHECKING:
    from trimtab.study.tables.side_by_side import SideBySide

First = Annotated[Path, typer.Argument(metavar="A", help="A folder written by `trimtab bench`, or one record of it.")]
Second = Annotated[Path, typer.Argument(metavar="B", help="Another one, to be compared with the first.")]
Images = Annotated[bool, typer.Option("--images", help="Also list the images that only one of them gets right.")]


def compare(a: First, b: Second, images: Images = False, json: Json = False) -> None:
    """Compare two benchmarks on the same images, such as before and after a change.

    Runs of the same method, weights and order on the same images are paired; an exact McNemar test says whether a
    difference is more than chance. Two single records are compared whatever their methods.

    \b
    Examples:
      trimtab compare results/before results/after
      trimtab compare results/lite results/openai --json
      trimtab compare before/run.json after/run.json --images
    """  # noqa: D301
    from trimtab.cli.output import show_json, table_console
    from trimtab.files import say
    from trimtab.study.tables import print_tables, read_side, side_by_side, side_by_side_data, side_by_side_tables

    found = side_by_side(read_side(a), read_side(b))
    for name, side in (("A", found.a), ("B", found.b)):
        if side.note:
            say(f"{name}: {side.note}")
    if json:
        show_json(side_by_side_data(found, images=images))
    else:
        print_tables(side_by_side_tables(found), table_console())
        if images:
            _list_images(found)
    if found.a.refused or found.b.refused:
        raise typer.Exit(1)


def _list_images(found: "SideBySide") -> None:
    """One line per changed image: which run, what happened to it, and which image it is."""
    from trimtab.study.tables import changed_images

    for row in found.rows:
        for pair in row.pairs:
            run = f"{row.label} on {row.a.dataset}, {row.a.order} {pair.a.about.seed}"
            changed = changed_images(pair)
            for what, listed in (("only B right", changed["only_b_right"]), ("only A right", changed["only_a_right"])):
                for image in listed:
                    name = image["id"] if image["id"] is not None else f"image {image['place']} of the stream"
                    typer.echo(f"{run}\t{what}\t{name}")
