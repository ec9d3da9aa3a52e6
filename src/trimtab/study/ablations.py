"""The paper's ablation studies as named plans, and two that it leaves out: when images are written, and in what order.

A study is a list of points; a point is a method with some parameters on the same store. Running a study is running a
benchmark (so it can be interrupted and goes on), and its table and figure come from the records.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods import list_methods, make_method, method_class
from trimtab.methods.base import CacheMethod
from trimtab.study.bench.plan import BASELINE, Plan, Run, labelled_store, possible_weights
from trimtab.study.bench.record import Record, read_record
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.report.significance import compare
from trimtab.study.report.tables import Cell, Row, Table, difference_text

SLOTS = (1, 3, 5, 10, 20)
CACHES = ("entropy", "align", "negative")


@dataclass(frozen=True)
class Point:
    """One setting. `at` is its place on the study's axes; `reference` marks what the others are compared with."""

    label: str
    at: tuple[float | str, ...]
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    order: str = "shuffled"
    views: int | None = None
    reference: bool = False


@dataclass(frozen=True)
class Study:
    """A question and the settings that answer it. No axis: dots; one: a line; two: a heat map."""

    title: str
    axes: tuple[str, ...]
    points: Callable[[FeatureStore, str], list[Point]]  # store, name of the method under study
    default_method: str = "mcp"


def _caches(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    """Every combination of at least one cache; the others have no slots."""
    chosen = [on for on in product((True, False), repeat=3) if any(on)]
    return [
        Point(
            " + ".join(name for name, kept in zip(CACHES, on, strict=True) if kept),
            (),
            method,
            {f"{name}_slots": 0 for name, kept in zip(CACHES, on, strict=True) if not kept},
            reference=all(on),
        )
        for on in chosen
    ]


def _retrieval(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    parts = method_class(method).parts
    alone = [
        Point(f"{name} alone", (), method, {"fusion": tuple(float(other == name) for other in parts)}) for name in parts
    ]
    return [*alone, Point("all parts", (), method, {"fusion": (1.0,) * len(parts)}, reference=True)]


def _cache_sizes(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    return [
        Point(
            f"entropy {entropy}, align {align}",
            (entropy, align),
            method,
            {"entropy_slots": entropy, "align_slots": align},
            reference=entropy == align == 10,
        )
        for entropy, align in product(SLOTS, repeat=2)
    ]


def _negative_size(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    sizes = (0, 1, 2, 3, 5, 8)
    return [Point(f"{n} negative slots", (n,), method, {"negative_slots": n}, reference=n == 3) for n in sizes]


def _center_weight(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    weights = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return [Point(f"w = {w}", (w,), method, {"center_weight": w}, reference=w == 0.8) for w in weights]


def _losses(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    names = {(True, True): "both", (True, False): "align only", (False, True): "contrast only", (False, False): "none"}
    switches = ("align_weight", "contrast_weight")
    return [
        Point(name, (), method, {s: 0.0 for s, kept in zip(switches, on, strict=True) if not kept}, reference=all(on))
        for on, name in names.items()
    ]


def _views(store: FeatureStore, method: str) -> list[Point]:
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= store.views]
    if len(counts) < 2:
        raise TrimtabError(
            f"{store.path} has one view of each image; encode it again with --views 32 to study the number of views."
        )
    return [Point(f"{n} views", (n,), method, views=n, reference=n == counts[-1]) for n in counts]


def _writing(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    return [
        Point(f"{title_of(name)}, {when}", (title_of(name), when), name, {"order": when})
        for name in _cache_methods()
        for when in ("write_first", "predict_first")
    ]


def _orders(store: FeatureStore, method: str) -> list[Point]:  # noqa: ARG001
    fifth = max(1, len(store.class_names) // 5)
    kinds = ("shuffled", "dirichlet:0.1", f"few-classes:{fifth}", "class-sorted")
    return [
        Point(f"{title_of(name)}, {kind}", (title_of(name), kind), name, order=kind)
        for name in _cache_methods()
        for kind in kinds
    ]


def _cache_methods() -> list[str]:
    return [name for name in list_methods() if issubclass(method_class(name), CacheMethod)]


STUDIES = {
    "caches": Study("Which caches help", (), _caches),
    "retrieval": Study("Which parts of the prediction help", (), _retrieval),
    "cache-sizes": Study("Slots of the entropy and align caches", ("entropy slots", "align slots"), _cache_sizes),
    "negative-size": Study("Slots of the negative cache", ("negative slots",), _negative_size),
    "center-weight": Study("Weight w of the visual prototype in the centre", ("w",), _center_weight),
    "losses": Study("Losses of MCP++", (), _losses, default_method="mcp_plus"),
    "views": Study("Number of views", ("views",), _views),
    "writing": Study("Written before or after it is predicted", ("method", "when an image is written"), _writing),
    "orders": Study("Sensitivity to the order of the stream", ("method", "order"), _orders),
}


def study_by_name(name: str) -> Study:
    """A study, or one sentence with the names of all."""
    if name not in STUDIES:
        raise TrimtabError(f"There is no study {name!r}; choose one of {', '.join(STUDIES)}.")
    return STUDIES[name]


@dataclass(frozen=True)
class Ablation:
    """A study on a store: its runs, point by point."""

    study: Study
    weights: str
    points: tuple[tuple[Point, tuple[Run, ...]], ...]
    zero_shot: tuple[Run, ...]

    @property
    def plan(self) -> Plan:
        """All runs, zero-shot first."""
        return Plan((*self.zero_shot, *(run for _, runs in self.points for run in runs)))

    def read(self, folder: str | Path) -> "Findings":
        """What the runs came to, from the records that they have left in a folder."""
        root = Path(folder)
        outcomes = [
            Outcome(point, [read_record(root / file) for run in runs for file in run.files.values()])
            for point, runs in self.points
        ]
        return Findings(self, outcomes, [read_record(root / run.file_of("fixed")) for run in self.zero_shot])


@dataclass(frozen=True)
class Outcome:
    """What a point came to, one record for each order."""

    point: Point
    records: list[Record]

    @property
    def mean(self) -> float | None:
        """Percent; None if an order failed."""
        if not all(record.ok for record in self.records):
            return None
        return 100 * float(np.mean([record.accuracy for record in self.records]))

    @property
    def spread(self) -> float:
        """The standard deviation over orders, in points."""
        if len(self.records) < 2:
            return 0.0
        return 100 * float(np.std([record.accuracy for record in self.records], ddof=1))


@dataclass(frozen=True)
class Findings:
    """A finished study."""

    ablation: Ablation
    outcomes: list[Outcome]
    zero_shot: list[Record]

    @property
    def zero_shot_accuracy(self) -> float:
        """Percent."""
        return 100 * float(np.mean([record.accuracy for record in self.zero_shot]))

    @property
    def reference(self) -> Outcome | None:
        """The paper's own setting, where the study has one."""
        return next((outcome for outcome in self.outcomes if outcome.point.reference), None)

    @property
    def where(self) -> str:
        """The store and the weights, for titles; an oracle is called one."""
        about = self.zero_shot[0].about
        return f"{about.dataset}, {about.encoder}, {weights_title(self.ablation.weights)}"


def make_ablation(
    name: str, store: str | Path, *, method: str | None = None, seeds: int = 3, weights: str = "fixed"
) -> Ablation:
    """A study on a store; `method` is the one under study, where it is one."""
    study, opened = study_by_name(name), labelled_store(store)
    points = study.points(opened, method or study.default_method)

    def runs(point: Point) -> tuple[Run, ...]:
        made = make_method(point.method, **point.parameters)
        return tuple(
            Run(
                store=str(store),
                dataset=opened.info.dataset,
                fingerprint=opened.fingerprint,
                method=point.method,
                parameters=point.parameters,
                order=point.order,
                seed=seed,
                weights=possible_weights(made, [weights]),
                views=point.views,
                variant=point.label,
            )
            for seed in range(seeds)
        )

    zero_shot = Point("", (), BASELINE)
    return Ablation(study, weights, tuple((point, runs(point)) for point in points), runs(zero_shot))


def ablation_table(found: Findings) -> Table:
    """Every point with its difference from zero-shot and from the paper's own setting."""
    reference, base = found.reference, found.zero_shot_accuracy
    rows = []
    for outcome in found.outcomes:
        if outcome.mean is None:
            reason = next(record.reason for record in outcome.records if not record.ok)
            rows.append(Row(outcome.point.label, [Cell("failed", failed=True), Cell(""), Cell(reason)]))
            continue
        versus = compare(outcome.records, reference.records) if reference and outcome is not reference else None
        texts = [f"{outcome.mean:.2f} ±{outcome.spread:.2f}", f"{outcome.mean - base:+.2f}", difference_text(versus)]
        rows.append(Row(outcome.point.label, [Cell(text) for text in texts]))
    notes = [f"Zero-shot {base:.2f}. Top-1 percent, mean ± standard deviation over orders; differences in points."]
    if reference:
        notes.append(f"Reference: {reference.point.label}; exact McNemar test, largest p-value of the orders.")
    head = ["Accuracy", "vs zero-shot", "vs reference"]
    return Table(f"{found.ablation.study.title}: {found.where}", head, rows, notes, first="Setting")
