"""`trimtab tune`: search a method's parameters on labeled features and save what was found."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Json, Method, Overwrite, Store
from trimtab.errors import TrimtabError

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
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Search affinities and capacities with labels (an ORACLE), and save the best for `bench --tuned`.

    If it is stopped, the same command continues where it was: the trials are kept beside the file.

    \b
    Examples:
      trimtab tune features/cifar10 --method mcp --trials 50 -o mine.json
      trimtab tune features/cifar10 --images 2000 --holdout 0.5
      trimtab bench features/groceries --methods mcp --tuned mine.json
    """  # noqa: D301
    from trimtab.cli.output import show_json
    from trimtab.cli.progress import progress
    from trimtab.study.tune import tune as search

    _refuse_other_file(out, overwrite)
    with progress("tune", trials, "trials") as tell:

        def on_trial(done: int, best: float) -> None:
            _log.info("trial %d of %d: best ORACLE %.2f %%", done, trials, best)
            tell(done, f"tuning {method}: ORACLE {best:.2f} %")

        found = search(
            store,
            method,
            trials=trials,
            images=images,
            holdout=holdout,
            seed=seed,
            journal=out.with_name(f"{out.name}.journal"),
            on_trial=on_trial,
        )
    found.tuned.save(out)
    if json:
        show_json({**found.data(), "written": out})
        return
    for sentence in found.sentences():
        typer.echo(sentence)
    typer.echo(f"written: {out}")


def _refuse_other_file(out: Path, overwrite: bool) -> None:
    """Before the search: it may take hours, and only parameters of an earlier one may be replaced."""
    from trimtab.files import refuse_special
    from trimtab.study.bench.tuned import TunedParameters

    if out.is_dir():
        raise TrimtabError(
            f"{out} is a folder; give the name of a file for the parameters, such as {out / 'mine.json'}."
        )
    try:
        refuse_special(out)
    except OSError as error:
        raise TrimtabError(f"{out} cannot be written: {error.strerror or error}; choose another place.") from None
    if overwrite or not out.exists():
        return
    try:
        TunedParameters.load(out)
    except TrimtabError:
        raise TrimtabError(
            f"{out} exists and does not hold what `trimtab tune` writes; choose another name, or replace it with "
            "--overwrite."
        ) from None
