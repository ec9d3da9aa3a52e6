"""`trimtab plot`: one figure of a benchmark, as a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trimtab.cli.options import OneWeighting, Overwrite, Results, choices

FIGURES = ("cost", "compactness", "along", "reliability", "per-class", "features")
Figure = Annotated[
    str,
    typer.Argument(
        metavar="FIGURE", help=f"{', '.join(FIGURES[:-1])} or {FIGURES[-1]}.", autocompletion=choices(*FIGURES)
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File: .png, .pdf or .svg; FIGURE.png if not given.")]
Dataset = Annotated[str | None, typer.Option(help="The data set; for cost and compactness also several: a,b,...")]
Method = Annotated[str | None, typer.Option("--method", "-m", help="For per-class and features.")]
Projection = Annotated[
    str | None, typer.Option(help="For features: pca or tsne.", autocompletion=choices("pca", "tsne"))
]


def plot(
    name: Figure,
    results: Results,
    out: Out = None,
    dataset: Dataset = None,
    weights: OneWeighting = "fixed",
    method: Method = None,
    projection: Projection = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw one figure from the records of a benchmark.

    A figure that trimtab drew before is replaced; any other file of that name is refused, unless you say --overwrite.
    Damaged records are named and left out, and make the exit code 1.

    \b
    Examples:
      trimtab plot along results --dataset cifar10
      trimtab plot cost results --weights auto -o cost.pdf
      trimtab plot features results --dataset cifar10 -m mcp --projection tsne
    """  # noqa: D301  (the \b keeps the lines below it apart)
    from trimtab.errors import TrimtabError
    from trimtab.files import say
    from trimtab.study.bench import read_results
    from trimtab.study.bench.plan import WEIGHTS
    from trimtab.study.figures import check_figure, draw
    from trimtab.study.outputs import reserved, write_outputs
    from trimtab.study.plots import as_bytes

    check_figure(name)
    target = out or Path(f"{name}.png")
    if weights not in WEIGHTS:
        raise TrimtabError(f"There are no weights called {weights!r}; choose from {', '.join(WEIGHTS)}.")
    if target.suffix not in (".png", ".pdf", ".svg"):
        raise TrimtabError(f"A figure is written as .png, .pdf or .svg, not as {target.name!r}.")
    wanted = {"per-class": {"method": method}, "features": {"method": method, "projection": projection}}
    options: dict[str, Any] = {key: value for key, value in wanted.get(name, {}).items() if value is not None}
    for option, value in (("method", method), ("projection", projection)):
        if value is not None and option not in options:
            raise TrimtabError(f"The figure {name!r} takes no --{option}; leave it out.")
    with reserved(target, overwrite=overwrite):
        found = read_results(results)
        if found.note:
            say(found.note)
        axes = draw(name, found, dataset=dataset, weights=weights, **options)
        write_outputs({target: as_bytes(axes, target.suffix[1:])}, overwrite=overwrite)
    typer.echo(f"written: {target}")
    if found.refused:
        raise typer.Exit(1)
