"""`trimtab adapt`: many streams over one store, which merge what they learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trimtab.cli.options import Address, Changes, Engine, Json, Method, Workers, on_ray
from trimtab.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from trimtab.cluster.adapt import Adapted
    from trimtab.features import FeatureStore


def adapt(
    store: Annotated[str, typer.Argument(metavar="FEATURES", help="A feature store made by `trimtab encode`.")],
    method: Method = DEFAULT_METHOD,
    streams: Annotated[int, typer.Option(min=1, help="How many streams; each takes every n-th image.")] = 8,
    by_domain: Annotated[
        bool,
        typer.Option(
            "--by-domain", help="Instead: one stream for each domain of the store; with --isolated if they differ."
        ),
    ] = False,
    merge_every: Annotated[int, typer.Option(min=1, help="Images of each stream between two merges.")] = 1000,
    isolated: Annotated[bool, typer.Option("--isolated", help="Do not merge; only take snapshots.")] = False,
    order: Annotated[str, typer.Option(help="Order of the images: stored, shuffled, dirichlet:0.1, ...")] = "shuffled",
    seed: Annotated[int, typer.Option(help="Seed of the order.")] = 0,
    change: Changes = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for predictions and snapshots.")] = Path("adapted"),
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Adapt many streams at once, and merge what they learn.

    Each stream takes in its images and predicts them. After every --merge-every images the streams merge what they
    keep, and continue from the same state. If it is stopped, the same command continues after the last round.

    \b
    Examples:
      trimtab adapt features/cifar10 --streams 8 --merge-every 1000
      trimtab adapt /shared/features --engine ray --address auto -o /shared/out
      trimtab adapt features/pacs --by-domain --isolated
    """  # noqa: D301
    from trimtab.cli.bench import changes_of_one
    from trimtab.cli.output import folder_for
    from trimtab.cli.progress import progress_of
    from trimtab.cluster.adapt import adapt_streams
    from trimtab.cluster.adapt_plan import AdaptPlan, domain_names
    from trimtab.features import FeatureStore
    from trimtab.storage import is_url

    parameters = changes_of_one(method, change or [])
    folder_for(out, "predictions and snapshots")
    opened = FeatureStore.open(store)
    plan = AdaptPlan(
        store=store if is_url(store) else str(Path(store).expanduser().absolute()),
        fingerprint=opened.fingerprint,
        method=method,
        streams=len(domain_names(opened)) if by_domain else streams,
        merge_every=merge_every,
        merging=not isolated,
        by_domain=by_domain,
        parameters=parameters,
        order=order,
        seed=seed,
    )
    with progress_of("adapt", "images") as tell:
        adapted = adapt_streams(plan, out, ray=on_ray(engine, address), address=address, cores=workers, progress=tell)
    _write_predictions(opened, adapted, out)
    _report(opened, adapted, out, json)


def _write_predictions(store: "FeatureStore", adapted: "Adapted", out: Path) -> None:
    import csv
    import io

    from trimtab.files import write_whole

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "label", "stream"])
    for name, label, stream in zip(store.ids, adapted.labels.tolist(), adapted.streams.tolist(), strict=True):
        writer.writerow([name, store.class_names[label], stream])
    write_whole(out.expanduser() / "predictions.csv", text.getvalue().encode(errors="surrogateescape"))


def _report(store: "FeatureStore", adapted: "Adapted", out: Path, as_json: bool) -> None:
    from trimtab.cli.counting import counted
    from trimtab.cli.output import show_json
    from trimtab.features.encode import zero_shot_labels

    known = store.labels >= 0
    streams = int(adapted.streams.max()) + 1
    found = {"folder": out, "images": len(store), "streams": streams}
    if known.any():
        right = adapted.labels[known] == store.labels[known]
        found |= {"accuracy": float(right.mean())}
        found |= {"zero_shot": float((zero_shot_labels(store)[known] == store.labels[known]).mean())}
    if as_json:
        show_json(found)
        return
    print(f"{out}/predictions.csv: {counted(len(store), 'image')}, {counted(streams, 'stream')}")
    if known.any():
        print(f"accuracy: {found['accuracy']:.2%} (zero-shot {found['zero_shot']:.2%})")
