"""`trimtab methods`: what there is to choose from."""

from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, to see its parameters.")] = None,
) -> None:
    """List the methods and the columns of the paper's comparison; with a NAME, its parameters and their ranges."""
    console = Console(highlight=False)
    if name:
        console.print(_parameters(name))
    else:
        console.print(_methods(), _comparison(), sep="\n")


def _methods() -> Table:
    from trimtab.methods import METHODS, list_methods

    table = Table(title="Methods", box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in ("name", "venue", "keeps", "gradients", "views", "extra data"):
        table.add_column(column, no_wrap=column != "keeps")
    for info in METHODS:
        facts = [info.keeps, "yes" if info.gradients else "no", info.views, "yes" if info.extra_data else "no"]
        table.add_row(info.name, f"{info.venue} {info.year}", *facts)
    known = {info.name for info in METHODS}
    for plugin in (name for name in list_methods() if name not in known):
        table.add_row(plugin, "your own")
    table.caption = "\n".join(f"{info.name}: {info.title}, {info.paper}" for info in METHODS)
    table.caption_justify = "left"
    return table


def _comparison() -> Table:
    from trimtab.methods import METHODS, TRAITS

    table = Table(
        title="The columns of the MCP paper's comparison", box=None, title_justify="left", padding=(0, 1, 0, 0)
    )
    table.add_column("name", no_wrap=True)
    for trait in TRAITS:
        table.add_column(trait, justify="center", no_wrap=True)
    for info in METHODS:
        table.add_row(info.name, *("✓" if trait in info.traits else "·" for trait in TRAITS))
    table.caption = "\n".join(f"{trait}: {meaning}" for trait, meaning in TRAITS.items())
    table.caption_justify = "left"
    return table


def _parameters(name: str) -> Table:
    from dataclasses import MISSING, fields

    from trimtab.engine.parameters import allowed
    from trimtab.methods import method_class

    table = Table(title=f"{name}: parameters")
    for column in ("parameter", "default", "may be"):
        table.add_column(column)
    for parameter in fields(method_class(name)):
        default = "" if parameter.default is MISSING else repr(parameter.default)
        table.add_row(parameter.name, default, allowed(parameter))
    return table
