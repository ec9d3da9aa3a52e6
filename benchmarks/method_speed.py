"""How fast every method streams, beside the field's style of it (lists and torch, or torch's autograd), in one run.

Both go on from the same full caches over the same features. As in the papers' programs, the methods that average views
get 32 of them; those that take a gradient step get one.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import full_caches
from benchmarks.clock import milliseconds
from benchmarks.field_style import boostadapter, dmn, dpe, mcp, mcp_plus, tda
from benchmarks.synthetic import LOGIT_SCALE, make_features
from trimtab import Stream, Task, make_method
from trimtab.engine.state import fill

DIM, COMING, ROUNDS = 512, 128, 3
PAUSE = 0.3  # seconds: torch's threads go on spinning for a while after their work and would steal our cores


@dataclass(frozen=True)
class Race:
    """A method, how its stream is filled, and the field's style of going on from there."""

    title: str
    method: str
    views: int
    images_per_class: int  # that fill the caches
    field_style: Callable[[Stream, torch.Tensor, torch.Tensor], object]
    field_images: int  # few: it is slow
    parameters: dict[str, Any]
    filling: dict[str, Any]  # parameters that differ while the caches are filled, to be quick


def _races() -> list[Race]:
    alphas: dict[str, Any] = {"positive_alpha": 3.0, "positive_beta": 8.0}
    scale = LOGIT_SCALE
    two, one_sided = full_caches.two_caches, {"one_sided": True, "temperature": 0.01}
    plus = {"fusion": (1.0, 1.0, 1.0), **alphas}

    def dpe_twin(stream: Stream, coming: torch.Tensor, text: torch.Tensor) -> object:
        start = full_caches.evolving(stream)
        return dpe.run(coming, text, logit_scale=scale, align_weight=0.5, evolving=start)

    return [
        Race("TDA", "tda", 32, 20, lambda s, f, t: tda.run(f, t, logit_scale=scale, caches=two(s)), 24, {}, {}),
        Race(
            "BoostAdapter",
            "boostadapter",
            32,
            20,
            lambda s, f, t: boostadapter.run(f, t, logit_scale=scale, caches=two(s)),
            24,
            {},
            {},
        ),
        Race(
            "DMN-ZS",
            "dmn",
            32,
            40,
            lambda s, f, t: dmn.run(f, t, logit_scale=scale, memory=full_caches.memory(s)),
            12,
            {"fusion": (1.0, 1.0)},
            {},
        ),
        Race(
            "MCP",
            "mcp",
            32,
            40,
            lambda s, f, t: mcp.run(f, t, logit_scale=scale, caches=full_caches.three_caches(s), **alphas),
            12,
            {"prototype_term": "affinity", **plus},
            {},
        ),
        Race(
            "MCP++",
            "mcp_plus",
            1,
            5,
            lambda s, f, t: mcp_plus.run(f, t, logit_scale=scale, caches=full_caches.three_caches(s), **alphas),
            24,
            plus,
            {},
        ),
        Race(
            "MCP++, one-sided",
            "mcp_plus",
            1,
            5,
            lambda s, f, t: mcp_plus.run(
                f, t, logit_scale=scale, caches=full_caches.three_caches(s), one_sided=True, temperature=0.01, **alphas
            ),
            24,
            plus | one_sided,
            {},
        ),
        Race("DPE", "dpe", 1, 3, dpe_twin, 24, {}, {"text_tolerance": 0.1}),
        Race(
            "DPE, text tolerance 0",
            "dpe",
            1,
            3,
            dpe_twin,
            24,
            {"text_tolerance": 0.0},
            {"text_tolerance": 0.1},
        ),
    ]


def full_stream(race: Race, task: Task, features: np.ndarray[Any, Any]) -> Stream:
    """A stream that has seen enough for its caches to be full, or nearly."""
    quick = make_method(race.method, **(race.parameters | race.filling)).start(task)
    quick.run(features, keep_parts=False)
    stream = make_method(race.method, **race.parameters).start(task)
    fill(stream.arrays(), quick.arrays())
    return stream


def measure(race: Race, classes: int) -> tuple[float, float]:
    """Milliseconds per image: of `run`, and of the field's style."""
    features, _, text = make_features(classes, DIM, 1, classes * race.images_per_class, seed=0)
    coming, _, _ = make_features(classes, DIM, race.views, COMING, seed=0)
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    full = full_stream(race, task, features)
    few, prototypes = torch.from_numpy(coming[: race.field_images]), torch.from_numpy(text)
    _field_time(race, full, few, prototypes)  # the first run pays for memory and threads
    ours, theirs = [], []
    for _ in range(ROUNDS):  # taking turns, so that a disturbance of the machine hits both
        stream = full.copy()
        time.sleep(PAUSE)
        ours.append(milliseconds(lambda s=stream: s.run(coming)) / COMING)  # type: ignore[misc]
        theirs.append(_field_time(race, full, few, prototypes))
    return statistics.median(ours), statistics.median(theirs)


def _field_time(race: Race, full: Stream, few: torch.Tensor, text: torch.Tensor) -> float:
    """Per image, without what it takes to rebuild the caches in the field's data structures."""
    rebuilding = milliseconds(lambda: race.field_style(full, few[:0], text))
    return (milliseconds(lambda: race.field_style(full, few, text)) - rebuilding) / len(few)


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title=f"Every method, ms per image (d = {DIM}, full caches, one run)")
    for column in ("method", "C", "V", "run", "field style", "field / run"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for race in _races():
        for classes in (100, 1000):
            ours, theirs = measure(race, classes)
            table.add_row(
                race.title, str(classes), str(race.views), f"{ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.1f}"
            )
    console.print(table)


if __name__ == "__main__":
    show(Console())
