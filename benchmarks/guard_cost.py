"""What a guard costs: `run` and `step` with it and without, in turns, on the same features and the same full caches.

Each is timed many times, for a few images at a time. "More" is of the processor's time, in which other programs have
the least part: the best time with a guard against the best without. Beside it stand the median of the ratios of two
neighbors in time, and what more there is in wall time, of the best. Where the three differ much, the machine was not
quiet.

And what no guard can do without: one cosine per image with a mean, and those with the last 128 images, block by block.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.synthetic import LOGIT_SCALE, make_features
from trimtab import Guard, Stream, Task, make_method
from trimtab.engine.state import fill
from trimtab.guard.admission import HELD
from trimtab.guard.watch import STRETCH
from trimtab.stream import BLOCK

DIM, RUN, STEPS, ROUNDS = 512, 2 * BLOCK, 32, 25
IMAGES_PER_CLASS = 20
COMING = 8 * RUN  # which come again and again, each after more others than a guard compares it with

Features = NDArray[np.float32]


class Cost(NamedTuple):
    """Of one way to take in images: microseconds of processor time per image, and what a guard adds, as shares."""

    alone: float  # the best without a guard
    more: float  # of the best times
    paired: float  # the median of neighbors in time
    wall: float  # of the best wall times


def measure(method: str, classes: int) -> tuple[Cost, Cost]:
    """Of `run`, and of `step`."""
    full = classes * IMAGES_PER_CLASS // STRETCH * STRETCH  # blocks end where a guard looks back, with it and without
    everything, _, text = make_features(classes, DIM, 1, full + COMING, seed=0)
    features, coming = everything[:full], everything[full:]
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    bare = make_method(method).start(task)
    bare.run(features, keep_parts=False)
    guarded = make_method(method).start(task, Guard())
    guarded.run(features[-256:], keep_parts=False)  # the guard knows the stream
    known = bare.arrays()
    fill({name: array for name, array in guarded.arrays().items() if name in known}, known)
    return _compare(bare, guarded, _run, coming, RUN), _compare(bare, guarded, _steps, coming, STEPS)


def _run(stream: Stream, images: Features) -> None:
    stream.run(images, keep_parts=False)


def _steps(stream: Stream, images: Features) -> None:
    for image in images:
        stream.step(image)


def _compare(
    bare: Stream, guarded: Stream, work: Callable[[Stream, Features], None], coming: Features, images: int
) -> Cost:
    """Let copies of both streams do the same in turns, each first in every second round; the first is not counted."""
    streams = bare.copy(), guarded.copy()
    times = np.zeros((1 + ROUNDS, 2, 2))  # of each round and stream: the processor's time, and wall time
    for number in range(1 + ROUNDS):
        first = number * images % len(coming)
        for place in (0, 1) if number % 2 else (1, 0):
            before = time.process_time(), time.perf_counter()
            work(streams[place], coming[first : first + images])
            times[number, place] = time.process_time() - before[0], time.perf_counter() - before[1]
    times = times[1:] / images
    (alone, wall), (with_guard, wall_with_guard) = times.min(axis=0)
    paired = float(np.median(times[:, 1, 0] / times[:, 0, 0]))
    return Cost(1e6 * alone, with_guard / alone - 1, paired - 1, wall_with_guard / wall - 1)


def least() -> tuple[float, float]:
    """Microseconds per image of a run: one cosine with each image, and those with as many images as a guard holds."""
    images = np.random.default_rng(0).normal(size=(RUN, DIM)).astype(np.float32)
    held = np.random.default_rng(1).normal(size=(HELD, DIM)).astype(np.float32)
    blocks = [images[first : first + BLOCK] for first in range(0, RUN, BLOCK)]
    one, many = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        for block in blocks:
            block @ held[0]
        between = time.process_time()
        for block in blocks:
            block @ held.T
        one.append(between - start)
        many.append(time.process_time() - between)
    return 1e6 * min(one) / RUN, 1e6 * min(many) / RUN


def show(console: Console) -> None:
    """Measure and print the table."""
    title = f"What a guard costs, microseconds of processor time per image (d = {DIM}, one view, the best of {ROUNDS})"
    table = Table(title=title)
    for column in ("method", "C", "run", "more", "paired", "wall", "step", "more", "paired", "wall"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in ("mcp", "tda", "dmn"):
        for classes in (100, 1000):
            costs = measure(method, classes)
            cells = [
                f"{cost.alone:.1f} | {cost.more:+.0%} | {cost.paired:+.0%} | {cost.wall:+.0%}".split(" | ")
                for cost in costs
            ]
            table.add_row(method, str(classes), *cells[0], *cells[1])
    console.print(table)
    one, many = least()
    console.print(f"Least in a run: one cosine {one:.2f} us, cosines with {HELD} images {many:.2f} us per image.")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    show(Console(width=120))
