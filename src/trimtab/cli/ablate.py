"""`trimtab ablate`: one of the paper's ablation studies on one's own features, as a table and a figure."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.bench import run_with_progress
from trimtab.cli.options import OneWeighting, SkipExisting, Store, Workers, choices

STUDIES = (
    "caches",
    "retrieval",
    "cache-sizes",
    "negative-size",
    "center-weight",
    "losses",
    "views",
    "writing",
    "orders",
)
Study = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help=f"{', '.join(STUDIES[:-1])} or {STUDIES[-1]}.", autocompletion=choices(*STUDIES)
    ),
]
Method = Annotated[str | None, typer.Option("--method", "-m", help="The method to study, for studies of one method.")]
Orders = Annotated[int, typer.Option(help="How many orders are drawn.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the records, the table and the figure.")]


def ablate(
    study: Study,
    store: Store,
    method: Method = None,
    orders: Orders = 3,
    weights: OneWeighting = "fixed",
    out: Out = Path("ablations"),
    workers: Workers = None,
    skip_existing: SkipExisting = True,
) -> None:
    """Run one of the paper's ablation studies on a feature store.

    If it is stopped, the same command continues where it was.
    """
    from rich.console import Console

    from trimtab.files import write_whole
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
