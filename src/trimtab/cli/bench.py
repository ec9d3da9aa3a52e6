"""`trimtab bench`: run methods on stores in several orders, one JSON file per run."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.counting import counted
from trimtab.cli.options import Address, Changes, Engine, Json, SkipExisting, ViewBudget, Workers, choices, on_ray
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.study.bench import Plan
    from trimtab.study.bench.workers import Elsewhere

_log = logging.getLogger(__name__)

Stores = Annotated[list[str], typer.Argument(metavar="FEATURES", help="Feature stores made by `trimtab encode`.")]
Methods = Annotated[
    str, typer.Option(help="Comma-separated names, or all that need only features; zero_shot always runs.")
]
Seeds = Annotated[int, typer.Option("--orders", min=1, help="How many orders of each kind are drawn.")]
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
    json: Json = False,
    images: Images = None,
    view_budget: ViewBudget = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Run methods on feature stores, in several orders.

    If it is stopped, the same command continues where it was. Runs that fail are named, and make the exit code 1.

    \b
    Examples:
      trimtab bench features/cifar10 -o results/
      trimtab bench features/* --methods mcp,tda --orders 5 --weights auto
      trimtab bench features/cifar10 --set mcp.align_slots=5 --order dirichlet:0.1
      trimtab bench /shared/features/* --engine ray --address auto
    """  # noqa: D301
    from trimtab.cli.output import folder_for, show_json
    from trimtab.files import say
    from trimtab.storage import is_url
    from trimtab.study.bench import make_plan
    from trimtab.study.bench.plan import not_in_all
    from trimtab.study.bench.tuned import TunedParameters

    folder_for(out, "the records")
    named = words(methods, "--methods")
    plan = make_plan(
        [store if is_url(store) else Path(store) for store in stores],
        named,
        orders=order,
        seeds=orders,
        weights=words(weights, "--weights"),
        parameters=changes_of(change or []),
        tuned=[TunedParameters.load(path) for path in tuned or []],
        images=images or [],
        view_budget=view_budget,
    )
    if "all" in named and (left_out := [name for name in not_in_all() if name not in named]):
        say(f"Left out, since they need more than features and take hours: {', '.join(left_out)}. Name them to run.")
    elsewhere: Elsewhere | None = None
    if on_ray(engine, address):
        from trimtab.cluster.bench import runs_on_ray

        elsewhere = runs_on_ray(address, workers)
    ran = run_with_progress("bench", plan, out, workers, skip_existing, elsewhere)
    if json:
        show_json({"folder": out, **asdict(ran)})
    else:
        typer.echo(f"Show the tables with: trimtab report {out}")
    if ran.failed:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Ran:
    """What became of a plan: runs in all, runs that were there before, records made now, and what failed."""

    planned: int
    there_before: int
    records_written: int
    failed: list[dict[str, Any]]


def run_with_progress(
    verb: str, plan: "Plan", out: Path, workers: int | None, skip_existing: bool, elsewhere: "Elsewhere | None" = None
) -> Ran:
    """Run a plan and show how far it is, then say what failed and why."""
    from trimtab.cli.progress import progress
    from trimtab.files import say
    from trimtab.study.bench import run_plan
    from trimtab.study.bench.results import still_to_run

    remaining = len(still_to_run(out, plan.runs)) if skip_existing else len(plan)
    there = len(plan) - remaining
    if there:
        say(f"{there} of {len(plan)} runs are already there.")
    _log.info("%d runs to do, of a plan of %d, with %s workers", remaining, len(plan), workers or "all possible")
    failed: list[dict[str, Any]] = []
    done = 0
    with progress(verb, remaining, "runs") as tell:

        def on_done(run: Any, records: Sequence[Any]) -> None:
            nonlocal done
            done += 1
            tell(done, str(run))
            bad = [record for record in records if not record.ok]
            failed.extend(_failure(record) for record in bad)
            _log.info("%s: %s", run, "; ".join(record.reason for record in bad) or "done")

        made = run_plan(plan, out, workers=workers, skip_existing=skip_existing, on_done=on_done, elsewhere=elsewhere)
    for what in dict.fromkeys(f"failed: {one['method']} on {one['dataset']}: {one['reason']}" for one in failed):
        say(what)
    say(f"{counted(len(made), 'record')} written to {out}.")
    return Ran(len(plan), there, len(made), failed)


def _failure(record: Any) -> dict[str, Any]:
    names = ("dataset", "method", "variant", "order", "seed", "weights")
    return {name: getattr(record.about, name) for name in names} | {"reason": record.reason}


def words(text: str, option: str) -> list[str]:
    """Comma-separated names, as a list of at least one."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise TrimtabError(f"{option} {text!r} names nothing; give at least one name.")
    return found


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


def changes_of_one(method: str, settings: Sequence[str]) -> dict[str, Any]:
    """["mcp.align_slots=5"] -> {"align_slots": 5}, where mcp is the only method."""
    found = changes_of(settings)
    if others := set(found) - {method}:
        raise TrimtabError(f"--set gives a parameter of {min(others)!r}, but the method is {method!r}.")
    return found.get(method, {})
