"""What a guard costs: `run` and `step` with it and without, in turns, on the same features and the same full caches.

And what no guard can do without: one cosine per image with a mean, and those with the last 128 images, block by block.
"""

import statistics

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.clock import milliseconds
from benchmarks.synthetic import LOGIT_SCALE, make_features
from trimtab import Guard, Task, make_method
from trimtab.engine.state import fill
from trimtab.guard.admission import HELD
from trimtab.stream import BLOCK

DIM, COMING, STEPS, ROUNDS = 512, 1024, 256, 3
IMAGES_PER_CLASS = 20


def measure(method: str, classes: int) -> tuple[float, float, float, float]:
    """Milliseconds per image: run, guarded run, step, guarded step."""
    everything, _, text = make_features(classes, DIM, 1, classes * IMAGES_PER_CLASS + COMING, seed=0)
    features, coming = everything[:-COMING], everything[-COMING:]
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    bare = make_method(method).start(task)
    bare.run(features, keep_parts=False)
    guarded = make_method(method).start(task, Guard())
    guarded.run(features[-256:], keep_parts=False)  # the guard knows the stream
    known = bare.arrays()
    fill({name: array for name, array in guarded.arrays().items() if name in known}, known)
    times: list[list[float]] = [[], [], [], []]
    for _ in range(ROUNDS):  # taking turns, so that a disturbance of the machine hits both
        for place, full in enumerate((bare, guarded)):
            stream = full.copy()
            times[place].append(milliseconds(lambda s=stream: s.run(coming, keep_parts=False)) / COMING)  # type: ignore[misc]
        for place, full in enumerate((bare, guarded)):
            stream = full.copy()
            stream.step(coming[0])
            work = coming[1 : STEPS + 1]
            times[2 + place].append(milliseconds(lambda s=stream, w=work: [s.step(x) for x in w]) / STEPS)  # type: ignore[misc]
    run, guarded_run, step, guarded_step = (statistics.median(found) for found in times)
    return run, guarded_run, step, guarded_step


def least() -> tuple[float, float]:
    """Milliseconds per image of a run: one cosine with each image, and those with as many images as a guard holds."""
    images = np.random.default_rng(0).normal(size=(COMING, DIM)).astype(np.float32)
    held = images[:HELD].copy()
    blocks = [images[first : first + BLOCK] for first in range(0, COMING, BLOCK)]
    one, many = [], []
    for _ in range(10 * ROUNDS):
        one.append(milliseconds(lambda: [block @ held[0] for block in blocks]) / COMING)
        many.append(milliseconds(lambda: [block @ held.T for block in blocks]) / COMING)
    return statistics.median(one), statistics.median(many)


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title=f"What a guard costs, ms per image (d = {DIM}, one view, one run)")
    for column in ("method", "C", "run", "guarded", "more", "step", "guarded", "more"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in ("mcp", "tda", "dmn"):
        for classes in (100, 1000):
            run, guarded_run, step, guarded_step = measure(method, classes)
            table.add_row(
                method,
                str(classes),
                f"{run:.3f}",
                f"{guarded_run:.3f}",
                f"{guarded_run / run - 1:+.0%}",
                f"{step:.2f}",
                f"{guarded_step:.2f}",
                f"{guarded_step / step - 1:+.0%}",
            )
    console.print(table)
    one, many = least()
    console.print(f"Least cost in a run: one cosine {one:.5f} ms, cosines with {HELD} images {many:.4f} ms per image.")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    show(Console(width=120))
