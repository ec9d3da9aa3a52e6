"""What Keel costs beside MCP, of which it is one part: `run` over a whole stream, from the first image on.

With few classes nearly all of it are the fits of the whitened memory, whose covariance costs d^2 multiplications per
image that it sees; the column "fits" is their share. Both take turns on the same features, so that a disturbance of
the machine hits both; the ratio is the median over the rounds.
"""

import statistics
import time

from rich.console import Console
from rich.table import Table

from benchmarks.clock import milliseconds
from benchmarks.synthetic import LOGIT_SCALE, make_features
from trimtab import MCP, Keel, Task
from trimtab.engine.whitened import WhitenedMemory

ROUNDS = 3
SETTINGS = ((10, 1280, 2000), (10, 1280, 10_000), (10, 512, 10_000), (100, 512, 10_000), (1000, 1280, 4000))


class TimedMemory(WhitenedMemory):
    """A memory that knows how long its fits took, in milliseconds."""

    spent = 0.0

    def _fit(self) -> None:
        begin = time.perf_counter()
        super()._fit()
        self.spent += 1e3 * (time.perf_counter() - begin)


def measure(classes: int, dim: int, images: int) -> tuple[float, float, float, float]:
    """Milliseconds per image of MCP, of Keel and of Keel's fits; Keel's cost over MCP's."""
    features, _, text = make_features(classes, dim, 1, images, seed=0)
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    method = Keel()
    MCP().start(task).run(features[:128])  # compiles
    times: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS):
        mcp, keel = MCP().start(task), method.start(task)
        level = keel.state.mcp.temper.level
        keel.state.memory = TimedMemory(task.text_prototypes, method.memory_slots, min(method.strength, 1.0), level)
        one, other = (milliseconds(lambda s=s: s.run(features, keep_parts=False)) for s in (mcp, keel))  # type: ignore[misc]
        times.append((one / images, other / images, keel.state.memory.spent / images))
    first, second, fits = (statistics.median(column) for column in zip(*times, strict=True))
    return first, second, fits, statistics.median(k / m for m, k, _ in times)


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title="Keel beside MCP, ms per image (one view, from the first image on, one run)")
    for column in ("C", "d", "images", "MCP", "Keel", "its fits", "Keel / MCP"):
        table.add_column(column, justify="right")
    for classes, dim, images in SETTINGS:
        mcp, keel, fits, ratio = measure(classes, dim, images)
        table.add_row(str(classes), str(dim), f"{images:,}", f"{mcp:.4f}", f"{keel:.4f}", f"{fits:.4f}", f"{ratio:.1f}")
    console.print(table)


if __name__ == "__main__":
    show(Console())
