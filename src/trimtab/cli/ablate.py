"""`trimtab ablate`: one of the paper's ablation studies on one's own features, as a table and a figure."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.bench import run_with_progress

Name = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="caches, retrieval, cache-sizes, negative-size, center-weight, losses, views, writing or orders.",
    ),
]
Store = Annotated[Path, typer.Argument(metavar="FEATURES", help="A feature store made by `trimtab encode`.")]
MethodName = Annotated[str | None, typer.Option("--method", help="The method under study, where it is one.")]
Orders = Annotated[int, typer.Option(help="How many orders are drawn.")]
Weights = Annotated[str, typer.Option(help="fixed, auto or oracle (uses labels).")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the records, the table and the figure.")]
Workers = Annotated[int | None, typer.Option(help="Processes of one thread each; all cores if not given.")]
Skip = Annotated[bool, typer.Option("--skip-existing/--redo", help="Keep good records, or run everything again.")]


def ablate(
    study: Name,
    store: Store,
    method: MethodName = None,
    orders: Orders = 3,
    weights: Weights = "fixed",
    out: Out = Path("ablations"),
    workers: Workers = None,
    skip_existing: Skip = True,
) -> None:
    """Run an ablation study on a feature store; the same command again goes on where it stopped."""
    from rich.console import Console

    from trimtab.files.whole_files import write_whole
    from trimtab.study.ablations import make_ablation
    from trimtab.study.plots import as_bytes, plot_study
    from trimtab.study.tables import ablation_table, markdown, print_tables

    ablation = make_ablation(study, store, method=method, seeds=orders, weights=weights)
    run_with_progress(ablation.plan, out, workers, skip_existing)
    found = ablation.read(out)
    table = ablation_table(found)
    print_tables([table], Console(highlight=False))
    name = f"{study}-{found.zero_shot[0].about.dataset}"
    write_whole(out / f"{name}.md", markdown([table]).encode())
    write_whole(out / f"{name}.png", as_bytes(plot_study(found)))
    typer.echo(f"written: {out / name}.md and .png")
