"""`trimtab plot`: one figure of a benchmark, as a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trimtab.cli.options import OneWeighting, Results, choices

FIGURES = ("cost", "compactness", "along", "reliability", "per-class", "features")
Figure = Annotated[
    str,
    typer.Argument(
        metavar="FIGURE", help=f"{', '.join(FIGURES[:-1])} or {FIGURES[-1]}.", autocompletion=choices(*FIGURES)
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File: .png, .pdf or .svg; FIGURE.png if not given.")]
Dataset = Annotated[str | None, typer.Option(help="The data set, if there are several.")]
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
) -> None:
    """Draw one figure from the records of a benchmark."""
    from trimtab.errors import TrimtabError
    from trimtab.files import write_whole
    from trimtab.study.bench import read_results
    from trimtab.study.bench.plan import WEIGHTS
    from trimtab.study.figures import draw
    from trimtab.study.plots import as_bytes

    target = out or Path(f"{name}.png")
    if weights not in WEIGHTS:
        raise TrimtabError(f"There are no weights called {weights!r}; choose from {', '.join(WEIGHTS)}.")
    if target.suffix not in (".png", ".pdf", ".svg"):
        raise TrimtabError(f"A figure is written as .png, .pdf or .svg, not as {target.name!r}.")
    wanted = {"per-class": {"method": method}, "features": {"method": method, "projection": projection}}
    options: dict[str, Any] = {key: value for key, value in wanted.get(name, {}).items() if value is not None}
    axes = draw(name, read_results(results), dataset=dataset, weights=weights, **options)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, as_bytes(axes, target.suffix[1:]))
    typer.echo(f"written: {target}")
