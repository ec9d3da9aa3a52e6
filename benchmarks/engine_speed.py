"""How fast MCP streams: `run` and `step` beside the field's style, plain loops, and the bare matrix products.

All figures of a row come from one run on the same features and the same full caches, so their ratios mean something on
any machine. The floor is every image's products with the text, with every slot, and with the other images of its block:
what no exact implementation can avoid that keeps an image once for each slot that holds it.
"""

import statistics
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import full_caches
from benchmarks.clock import milliseconds
from benchmarks.field_style import mcp as field_style
from benchmarks.synthetic import LOGIT_SCALE, Array, make_features
from tests.oracle import mcp as plain_loops
from tests.oracle.caches import Item as PlainItem
from trimtab import MCP, Stream, Task
from trimtab.stream import BLOCK

DIM, ROUNDS, STEPS = 512, 5, 60
IMAGES_PER_CLASS = 40  # of a skewed stream: enough to fill nearly every slot
ALPHA, BETA = 3.0, 8.0
METHOD = MCP()  # as users run it: it also finds its weights, which the two it is compared with do not
PAPER = MCP(prototype_term="affinity", positive_alpha=ALPHA, positive_beta=BETA, fusion=(1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Row:
    """Milliseconds per image of one setting."""

    classes: int
    views: int
    filled: float
    run: float
    step: float
    floor: float
    field: float
    loops: float
    megabytes: float


def measure(classes: int, views: int) -> Row:
    """Fill the caches with single views, then time every way of going on from there."""
    fill = classes * IMAGES_PER_CLASS
    features, _, text = make_features(classes, DIM, 1, fill, seed=0)
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    full = METHOD.start(task)
    full.run(features, keep_parts=False)
    coming, _, _ = make_features(classes, DIM, views, 512, seed=0)

    run_times, floor_times, step_times = [], [], []
    stepped = full.copy()
    stepped.step(coming[-1])  # compiles, the first time
    for _ in range(ROUNDS):  # taking turns, so that a disturbance of the machine hits all
        stream = full.copy()
        run_times.append(milliseconds(lambda s=stream: s.run(coming)) / len(coming))  # type: ignore[misc]
        floor_times.append(milliseconds(lambda: bare_products(full, coming)) / len(coming))
        step_times.append(milliseconds(lambda: [stepped.step(image) for image in coming[:STEPS]]) / STEPS)
    field = _time_field_style(full, torch.from_numpy(coming[:12]))
    loops = _time_plain_loops(full, coming[:2])
    return Row(
        classes,
        views,
        float(full.state.caches.bank.occupied[:, 1:21].mean()),
        statistics.median(run_times),
        statistics.median(step_times),
        statistics.median(floor_times),
        field,
        loops,
        sum(array.nbytes for array in full.arrays().values()) / 1e6,
    )


def bare_products(stream: Stream, coming: Array) -> None:
    """The matrix products that the work needs, and nothing else."""
    slots = stream.state.caches.bank.all_rows
    text = stream.task.text_prototypes
    for first in range(0, len(coming), BLOCK):
        block = coming[first : first + BLOCK]
        block.reshape(-1, DIM) @ text.T
        plain = np.ascontiguousarray(block[:, 0])
        slots @ plain.T
        plain @ plain.T


def _time_field_style(full: Stream, coming: torch.Tensor) -> float:
    caches = full_caches.three_caches(full)
    text = torch.from_numpy(full.task.text_prototypes.copy())

    def work() -> None:
        field_style.run(coming, text, logit_scale=LOGIT_SCALE, caches=caches, positive_alpha=ALPHA, positive_beta=BETA)

    return min(milliseconds(work) for _ in range(3)) / len(coming)


def _time_plain_loops(full: Stream, coming: Array) -> float:
    caches = plain_loops.Caches()
    for section, cache in (("entropy", caches.entropy), ("align", caches.align), ("negative", caches.negative)):
        for label, feature, score, plausible in full_caches.items(full, section):
            cache.setdefault(label, []).append(
                PlainItem(feature.astype(np.float64), score, plausible.astype(np.float64))
            )
    parameters = PAPER.parameters()
    settings = plain_loops.Parameters(**{name: parameters[name] for name in plain_loops.Parameters.__annotations__})
    text = [row.astype(np.float64) for row in full.task.text_prototypes]

    def work() -> None:
        for views in coming:
            image = plain_loops.look_at([view.astype(np.float64) for view in views], text, LOGIT_SCALE, 0.1, "plain")
            plain_loops.write(caches, image, text, settings)
            plain_loops.prototype_logits(caches, image, settings)
            plain_loops.retrieval_part(caches, image, text, LOGIT_SCALE, settings.retrieval_beta)

    return milliseconds(work) / len(coming)


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title=f"MCP, ms per image (d = {DIM}, full caches, one run)")
    columns = (
        "C",
        "V",
        "full",
        "run",
        "step",
        "floor",
        "run/floor",
        "field style",
        "field/run",
        "plain loops",
        "caches",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for classes in (100, 1000):
        for views in (1, 32):
            row = measure(classes, views)
            table.add_row(
                str(classes),
                str(views),
                f"{row.filled:.0%}",
                f"{row.run:.3f}",
                f"{row.step:.2f}",
                f"{row.floor:.3f}",
                f"{row.run / row.floor:.2f}",
                f"{row.field:.1f}",
                f"{row.field / row.run:.0f}",
                f"{row.loops:.0f}",
                f"{row.megabytes:.0f} MB",
            )
    console.print(table)


if __name__ == "__main__":
    show(Console(width=130))
