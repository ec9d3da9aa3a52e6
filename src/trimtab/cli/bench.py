"""`trimtab bench`: run methods on stores in several orders, one JSON file per run."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.options import SkipExisting, Workers, choices
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.study.bench import Plan

_log = logging.getLogger(__name__)

Stores = Annotated[list[Path], typer.Argument(metavar="FEATURES", help="Feature stores made by `trimtab encode`.")]
Methods = Annotated[str, typer.Option(help="Comma-separated names, or all; zero_shot always runs.")]
Seeds = Annotated[int, typer.Option("--orders", help="How many orders of each kind are drawn.")]
Order = Annotated[
    list[str],
    typer.Option(
        help="Kind of order: shuffled, dirichlet:0.1, ...; repeat for more.",
        autocompletion=choices("shuffled", "dirichlet:0.1"),
    ),
]
Weightings = Annotated[
    str, typer.Option("--weights", help="How parts are weighted: fixed, auto, oracle (uses labels).")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the records.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="A hyperparameter, such as mcp.align_slots=5.")]
Images = Annotated[
    list[str] | None, typer.Option(help="Data set or folder behind a store, for methods that need pixels.")
]
Tuned = Annotated[list[Path] | None, typer.Option("--tuned", help="Parameters saved by `trimtab tune`.")]


def bench(
    stores: Stores,
    methods: Methods = "all",
    orders: Seeds = 5,
    order: Order = ["shuffled"],  # noqa: B006  (typer reads the default and does not change it)
    weights: Weightings = "fixed,auto,oracle",
    out: Out = Path("results"),
    workers: Workers = None,
    skip_existing: SkipExisting = True,
    change: Changes = None,
    tuned: Tuned = None,
    images: Images = None,
) -> None:
    """Run methods on feature stores, in several orders.

    If it is stopped, the same command continues where it was. Runs that fail are named, and make the exit code 1.
    """
    from trimtab.study.bench import make_plan
    from trimtab.study.bench.tuned import TunedParameters

    plan = make_plan(
        stores,
        words(methods),
        orders=order,
        seeds=orders,
        weights=words(weights),
        parameters=changes_of(change or []),
        tuned=[TunedParameters.load(path) for path in tuned or []],
        images=images or [],
    )
    all_well = run_with_progress(plan, out, workers, skip_existing)
    typer.echo(f"Show the tables with: trimtab report {out}")
    if not all_well:
        raise typer.Exit(1)


def run_with_progress(plan: "Plan", out: Path, workers: int | None, skip_existing: bool) -> bool:
    """Run a plan behind one progress bar, then say what failed and why; False if something did."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from trimtab.study.bench import run_plan
    from trimtab.study.bench.results import still_to_run

    console = Console(stderr=True, highlight=False)
    remaining = len(still_to_run(out, plan.runs)) if skip_existing else len(plan)
    if remaining < len(plan):
        console.print(f"{len(plan) - remaining} of {len(plan)} runs are already there.")
    _log.info("%d runs to do, of a plan of %d, with %s workers", remaining, len(plan), workers or "all possible")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    failed = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("starting", total=remaining)

        def on_done(run: Any, records: Sequence[Any]) -> None:
            progress.update(bar, advance=1, description=str(run))
            reasons = {f"{run.method} on {run.dataset}": bad.reason for bad in records if not bad.ok}
            failed.update(reasons)
            _log.info("%s: %s", run, "; ".join(reasons.values()) or "done")

        made = run_plan(plan, out, workers=workers, skip_existing=skip_existing, on_done=on_done)
    for what, reason in failed.items():
        console.print(f"[bold yellow]failed:[/] {what}: {reason}", soft_wrap=True)
    console.print(f"{len(made)} records written to {out}.", soft_wrap=True)
    return not failed


def words(text: str) -> list[str]:
    """Comma-separated names, as a list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def changes_of(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """["mcp.align_slots=5"] -> {"mcp": {"align_slots": 5}}."""
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        method, dot, parameter = name.strip().partition(".")
        if not (equals and dot and method and parameter):
            raise TrimtabError(f"--set takes method.parameter=value, as in mcp.align_slots=5, not {setting!r}.")
        try:
            meant = json.loads(value)
        except ValueError:
            meant = value.strip()
        found.setdefault(method, {})[parameter] = tuple(meant) if isinstance(meant, list) else meant
    return found
