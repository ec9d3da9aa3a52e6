"""What a guard costs: `run` and `step` with it and without, in turns, on the same features and the same full caches."""

import statistics

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.clock import milliseconds
from benchmarks.synthetic import LOGIT_SCALE, make_features
from trimtab import Guard, Task, make_method
from trimtab.engine.state import fill

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


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    show(Console(width=120))
