"""`trimtab attack`: what crafted images in a stream do to methods, with a guard and without."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Json, Overwrite, Store

Methods = Annotated[str, typer.Option(help="Methods with commas between.")]
Attacks = Annotated[str, typer.Option(help="Attacks with commas between, or all.")]
Orders = Annotated[int, typer.Option(min=1, help="How many orders are drawn.")]
Images = Annotated[int | None, typer.Option(min=10, help="Images of each order; all if not given.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File for the outcomes, as JSON.")]


def attack(
    store: Store,
    methods: Methods = "mcp,tda,dmn,dpe",
    attacks: Attacks = "all",
    orders: Orders = 3,
    images: Images = None,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Poison a stream with crafted images and see what it costs.

    Only the clean images are scored. Every method runs as it was published and with trimtab's guard before it; crafted
    images are features, since whatever holds against any feature holds against any image. The store needs labels.
    A file that trimtab wrote before is replaced; any other is refused, unless you say --overwrite.

    \b
    Examples:
      trimtab attack features/cifar10
      trimtab attack features/cifar10 --attacks first,blend --images 1000
      trimtab attack features/cifar10 --json -o outcomes.json
    """  # noqa: D301
    from contextlib import nullcontext
    from json import dumps

    from trimtab.cli.output import show_json, table_console
    from trimtab.cli.progress import progress
    from trimtab.features import FeatureStore
    from trimtab.methods import make_method
    from trimtab.study.as_json import without_nan
    from trimtab.study.attack.crafting import chosen_attacks
    from trimtab.study.attack.trial import try_store
    from trimtab.study.outputs import made_by, reserved, write_outputs
    from trimtab.study.tables import attack_table, print_tables

    names = methods.split(",")
    for name in names:
        make_method(name)  # before the store is read
    wanted = chosen_attacks(attacks)
    opened = FeatureStore.open(store)
    with nullcontext() if out is None else reserved(out, overwrite=overwrite):
        with progress("attack", 2 * len(names) * (1 + len(wanted)), "trials") as tell:
            found = try_store(opened, methods=names, attacks=wanted, orders=orders, images=images, progress=tell)
        if out is not None:
            content = dumps({"made_by": made_by(), **without_nan(found.data())}, indent=1)
            write_outputs({out: content.encode()}, overwrite=overwrite)
    if json:
        show_json({**found.data(), "written": out})
        return
    print_tables([attack_table(found)], table_console())
    if out is not None:
        typer.echo(f"written: {out}")
