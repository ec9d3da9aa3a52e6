"""`trimtab methods`: what there is to choose from."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One method, to see its parameters.")] = None,
    json: Json = False,
) -> None:
    r"""List the methods, or the parameters of one.

    Without a NAME, also the columns of the MCP paper's comparison; with one, what each of its parameters means.

    \b
    Examples:
      trimtab methods
      trimtab methods mcp
    """
    from rich.console import Console

    if json:
        return _show_json(name)

    console = Console(highlight=False)
    if name is not None:
        console.print(_parameters(name))
    else:
        console.print(_methods(), _comparison(plain=console.options.ascii_only), sep="\n")


def _show_json(name: str | None) -> None:
    """The facts of every method, or of one with its parameters."""
    from dataclasses import asdict

    from trimtab.cli.output import show_json
    from trimtab.engine.parameters import described
    from trimtab.methods import info_of, list_methods, method_class

    def facts(method: str) -> dict[str, Any]:
        info = info_of(method)
        names = ("title", "paper", "year", "venue", "keeps", "gradients", "views", "extra_data")
        return {"name": method, **{key: getattr(info, key) for key in names}, "traits": sorted(info.traits)}

    if name is None:
        show_json([facts(method) for method in list_methods()])
    else:
        found = [asdict(parameter) for parameter in described(method_class(name))]
        show_json({**facts(name), "parameters": found})


def _methods() -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from trimtab.methods import info_of, list_methods

    table = Table(title="Methods", box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in ("name", "venue", "keeps", "gradients", "views", "extra data"):
        table.add_column(column, no_wrap=column != "keeps")
    lines = []
    for name in list_methods():
        info = info_of(name)
        facts = [info.keeps, "yes" if info.gradients else "no", info.views, "yes" if info.extra_data else "no"]
        table.add_row(name, f"{info.venue} {info.year or ''}".strip() or "your own", *facts)
        lines.append(f"{name}: {info.title}" + (f", {info.paper}" if info.paper else ""))
    table.caption = "\n".join(lines)
    table.caption_justify = "left"
    return table


def _comparison(plain: bool) -> "Table":
    from rich.table import Table

    from trimtab.methods import TRAITS, info_of, list_methods

    table = Table(
        title="The columns of the MCP paper's comparison", box=None, title_justify="left", padding=(0, 1, 0, 0)
    )
    table.add_column("name", no_wrap=True)
    for trait in TRAITS:
        table.add_column(trait, justify="center", no_wrap=True)
    has, lacks = ("yes", "-") if plain else ("✓", "·")
    for name in list_methods():
        table.add_row(name, *(has if trait in info_of(name).traits else lacks for trait in TRAITS))
    table.caption = "\n".join(f"{trait}: {meaning}" for trait, meaning in TRAITS.items())
    table.caption_justify = "left"
    return table


def _parameters(name: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from trimtab.engine.parameters import described
    from trimtab.methods import method_class

    table = Table(title=f"{name}: parameters", box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it does, the papers' symbol, and what it may be", overflow="fold")
    for found in described(method_class(name)):
        symbol = f" Symbol: {found.symbol}." if found.symbol else ""
        allowed = f"{found.allowed[0].upper()}{found.allowed[1:]}."
        table.add_row(found.name, found.default, escape(f"{found.about}{symbol} {allowed}"))
    return table
