"""`trimtab ablate`: one of the paper's ablation studies on one's own features, as a table and a figure."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.bench import run_with_progress
from trimtab.cli.options import Json, OneWeighting, Overwrite, SkipExisting, Store, Workers, choices

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
Orders = Annotated[int, typer.Option(min=1, help="How many orders are drawn.")]
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
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Run one of the paper's ablation studies on a feature store.

    If it is stopped, the same command continues where it was. Runs that fail are named, and make the exit code 1.

    \b
    Examples:
      trimtab ablate caches features/cifar10
      trimtab ablate cache-sizes features/cifar10 --orders 5 --weights auto
      trimtab ablate views features/cifar10-32 --json
    """  # noqa: D301
    from trimtab.cli.output import folder_for, show_json, table_console
    from trimtab.study.ablations import make_ablation
    from trimtab.study.outputs import made_by, refuse_foreign, write_outputs
    from trimtab.study.plots import as_bytes, plot_study
    from trimtab.study.tables import ablation_data, ablation_table, markdown, print_tables

    folder_for(out, "the records")
    ablation = make_ablation(study, store, method=method, seeds=orders, weights=weights)
    written = [out / f"{study}-{ablation.zero_shot[0].dataset}{ending}" for ending in (".md", ".png")]
    for path in written:
        refuse_foreign(path, overwrite=overwrite)
    ran = run_with_progress("ablate", ablation.plan, out, workers, skip_existing)
    found = ablation.read(out)
    table = ablation_table(found)
    page = f"<!-- {made_by()} -->\n\n{markdown([table])}".encode()
    write_outputs(dict(zip(written, (page, as_bytes(plot_study(found))), strict=True)), overwrite=overwrite)
    if json:
        show_json({**ablation_data(found), "written": written})
    else:
        print_tables([table], table_console())
        typer.echo(f"written: {written[0]} and .png")
    if ran.failed:
        raise typer.Exit(1)
