"""`trimtab demo`: what trimtab does, on real images, in about three minutes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.options import Json, Overwrite

if TYPE_CHECKING:
    from rich.table import Table

    from trimtab.study.demo.race import Finish, Weighing


def demo(
    images: Annotated[int, typer.Option(min=100, max=10_000, help="How many CIFAR-10 test images to stream.")] = 2000,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the CIFAR-10 binary batches, if you have them.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the two figures.")] = Path("demo-output"),
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Watch a classifier adapt to CIFAR-10, in about three minutes.

    No labels, no training, no GPU: labels are used only to score the predictions, and by the one row that says so.
    Images are encoded once and kept; interrupted or run again, the demo continues from there. The images, 170 MB, are
    fetched once, and only if everything that the demo needs is installed.

    \b
    Examples:
      trimtab demo
      trimtab demo --images 500 -o /tmp/demo
      trimtab demo --data ~/data/cifar-10-batches-bin
    """  # noqa: D301  (the \b keeps the lines below it apart)
    import time

    from rich.console import Console

    from trimtab.cli.output import show_json
    from trimtab.cli.progress import progress_of
    from trimtab.data.fetched.cifar import cifar10
    from trimtab.features.encode import encode_images
    from trimtab.files import cache_folder
    from trimtab.study.demo import figures, race
    from trimtab.study.demo.needs import working_encoder
    from trimtab.study.outputs import refuse_foreign, write_outputs

    console = Console(highlight=False)
    # What can fail is tried before the images are fetched and the minutes are spent.
    pictures = {name: out / f"{name}.png" for name in ("accuracy", "caches")}
    for path in pictures.values():
        refuse_foreign(path, overwrite=overwrite)
    image_set = None if data is None else cifar10(data)
    encoder = working_encoder()
    if image_set is None:
        image_set = cifar10()
    start = time.perf_counter()
    with progress_of("encode", "images") as tell:
        place = cache_folder("demo") / f"cifar10-lite-{images}"
        store = encode_images(image_set, encoder, out=place, limit=images, progress=tell)
    encoding = 1e3 * (time.perf_counter() - start) / len(store)

    finishes = race.run_methods(store)
    ways = race.weigh(finishes["mcp"], store.labels)
    if not json:  # now, and not after the figures: somebody is watching
        console.print(_accuracies(finishes, encoding))
        console.print(_weights(ways))

    where = {name: index for index, name in enumerate(image_set.ids)}
    drawn = {
        "accuracy": figures.accuracy_along_stream({name: f.correct for name, f in finishes.items()}),
        "caches": figures.contact_sheet(
            finishes["mcp"].stream.state.caches.bank,
            store.class_names,
            store.labels,
            lambda position: image_set.load(where[store.ids[position]]),
        ),
    }
    write_outputs({pictures[name]: png for name, png in drawn.items()}, overwrite=overwrite)
    if json:
        show_json(_described(finishes, ways, encoding, list(pictures.values())))
    else:
        console.print(f"Figures: {pictures['accuracy']} and {pictures['caches']}", soft_wrap=True)


def _described(
    finishes: "dict[str, Finish]", ways: "Sequence[Weighing]", encoding: float, written: list[Path]
) -> dict[str, Any]:
    methods = [
        {
            "method": name,
            "accuracy": 100 * found.accuracy,
            "interval": [100 * edge for edge in found.interval],
            "milliseconds": found.milliseconds,
        }
        for name, found in finishes.items()
    ]
    weights = [{"weights": way.name, "accuracy": 100 * way.accuracy, "oracle": way.needs_labels} for way in ways]
    images = len(finishes["zero_shot"].correct)
    return {
        "images": images,
        "encoding_milliseconds": encoding,
        "methods": methods,
        "weights": weights,
        "written": written,
    }


def _accuracies(finishes: "dict[str, Finish]", encoding: float) -> "Table":
    from rich.table import Table

    from trimtab.registry import DEFAULT_METHOD

    images = len(finishes["zero_shot"].correct)
    base = finishes["zero_shot"].accuracy
    table = Table(title=f"CIFAR-10, {images:,} images, lite encoder, no labels")
    for column in ("method", "top-1", "95 % interval", "gain", "adapting"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, finish in finishes.items():
        low, high = finish.interval
        gain = "" if name == "zero_shot" else f"{100 * (finish.accuracy - base):+.1f}"
        style = "bold" if name == DEFAULT_METHOD else None
        cost = f"{finish.milliseconds:.2f} ms"
        table.add_row(name, f"{finish.accuracy:.1%}", f"{100 * low:.1f} to {100 * high:.1f}", gain, cost, style=style)
    how = f"{encoding:.1f} ms" if encoding > 1 else "already done"
    table.caption = f"adapting is per image; encoding one: {how}"
    return table


def _weights(ways: "Sequence[Weighing]") -> "Table":
    from rich.table import Table

    table = Table(title="MCP's three parts, weighted in three ways")
    for column in ("weights", "of text, prototype, retrieval", "needs labels", "top-1"):
        table.add_column(column, justify="right" if column == "top-1" else "left")
    for way in ways:
        table.add_row(way.name, way.weights, "YES: an oracle" if way.needs_labels else "no", f"{way.accuracy:.1%}")
    return table
