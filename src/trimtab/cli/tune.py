"""`trimtab tune`: search a method's parameters on labeled features and save what was found."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Method, Store

_log = logging.getLogger(__name__)

Trials = Annotated[int, typer.Option(help="How many settings are tried in all.")]
Images = Annotated[int | None, typer.Option(help="Search on only this many images.")]
Holdout = Annotated[float, typer.Option(help="Share of the images kept from the search.")]
Seed = Annotated[int, typer.Option(help="Seed of the order and of the search.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="File for the parameters.")]


def tune(
    store: Store,
    method: Method = "mcp",
    trials: Trials = 50,
    images: Images = None,
    holdout: Holdout = 0.5,
    seed: Seed = 0,
    out: Out = Path("tuned.json"),
) -> None:
    """Search affinities and capacities with labels (an ORACLE), and save the best for `bench --tuned`."""
    from rich.console import Console
    from rich.progress import Progress

    from trimtab.study.tune import tune as search

    journal = out.with_suffix(".journal")
    console = Console(stderr=True, highlight=False)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(f"tuning {method}", total=trials)

        def on_trial(done: int, best: float) -> None:
            _log.info("trial %d of %d: best ORACLE %.2f %%", done, trials, best)
            progress.update(bar, completed=done, description=f"tuning {method}: ORACLE {best:.2f} %")

        found = search(
            store,
            method,
            trials=trials,
            images=images,
            holdout=holdout,
            seed=seed,
            journal=journal,
            on_trial=on_trial,
        )
    found.tuned.save(out)
    for sentence in found.sentences():
        typer.echo(sentence)
    typer.echo(f"written: {out}")
