"""What finding the weights and the prototypes' strength from the stream costs, beside MCP with both given."""

import statistics

from rich.console import Console
from rich.table import Table

from benchmarks.clock import milliseconds
from benchmarks.synthetic import LOGIT_SCALE, Array, make_features
from trimtab import MCP, Stream, Task

DIM, COMING, ALONE, ROUNDS = 512, 2000, 200, 5
FOUND, GIVEN = MCP(), MCP.paper()


def measure(classes: int) -> dict[str, tuple[float, float]]:
    """Milliseconds per image with (found, given) weights, of `run` and of `step`, on caches that have seen a stream."""
    features, _, text = make_features(classes, DIM, 1, COMING + 2000 + 20 * classes, seed=0)
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    coming = features[-COMING:]
    warm = [method.start(task) for method in (FOUND, GIVEN)]
    for stream in warm:
        stream.run(features[:-COMING], keep_parts=False)
    runs: tuple[list[float], list[float]] = ([], [])
    steps: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):  # taking turns, so that a disturbance of the machine hits both
        for which, stream in enumerate(warm):
            runs[which].append(_run(stream.copy(), coming) / COMING)
            steps[which].append(_steps(stream.copy(), coming[:ALONE]) / ALONE)
    return {
        "run": (statistics.median(runs[0]), statistics.median(runs[1])),
        "step": (statistics.median(steps[0]), statistics.median(steps[1])),
    }


def _run(stream: Stream, coming: Array) -> float:
    return milliseconds(lambda: stream.run(coming))


def _steps(stream: Stream, coming: Array) -> float:
    return milliseconds(lambda: [stream.step(image) for image in coming])


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title=f"Weights found from the stream, ms per image (d = {DIM}, one view)")
    for column in ("C", "verb", "found", "given", "share of found"):
        table.add_column(column, justify="right")
    for classes in (10, 100, 1000):
        for verb, (found, given) in measure(classes).items():
            table.add_row(str(classes), verb, f"{found:.3f}", f"{given:.3f}", f"{(found - given) / found:.0%}")
    console.print(table)


if __name__ == "__main__":
    show(Console())
