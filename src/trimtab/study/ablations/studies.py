"""The paper's ablation studies as named plans, and two that it leaves out: when images are written, and in what order.

A study is a list of points; a point is a method with some parameters on the same store. Running a study is running a
benchmark, so it can be interrupted and continued, and its table and figure come from the records.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods import list_methods, method_class
from trimtab.methods.base import CacheMethod
from trimtab.study.bench.rows import title_of, views_title

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


def _caches(_store: FeatureStore, method: str) -> list[Point]:
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


def _retrieval(_store: FeatureStore, method: str) -> list[Point]:
    parts = method_class(method).parts
    alone = [
        Point(f"{name} alone", (), method, {"fusion": tuple(float(other == name) for other in parts)}) for name in parts
    ]
    return [*alone, Point("all parts", (), method, {"fusion": (1.0,) * len(parts)}, reference=True)]


def _cache_sizes(_store: FeatureStore, method: str) -> list[Point]:
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


def _negative_size(_store: FeatureStore, method: str) -> list[Point]:
    sizes = (0, 1, 2, 3, 5, 8)
    return [
        Point(f"{n} negative slot{'' if n == 1 else 's'}", (n,), method, {"negative_slots": n}, reference=n == 3)
        for n in sizes
    ]


def _center_weight(_store: FeatureStore, method: str) -> list[Point]:
    weights = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return [Point(f"w = {w}", (w,), method, {"center_weight": w}, reference=w == 0.8) for w in weights]


def _losses(_store: FeatureStore, method: str) -> list[Point]:
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
    return [Point(views_title(n), (n,), method, views=n, reference=n == counts[-1]) for n in counts]


def _writing(_store: FeatureStore, _method: str) -> list[Point]:
    return [
        Point(f"{title_of(name)}, {when}", (title_of(name), when), name, {"order": when})
        for name in _cache_methods()
        for when in ("write_first", "predict_first")
    ]


def _orders(store: FeatureStore, _method: str) -> list[Point]:
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
    "center-weight": Study("Weight w of the visual prototype in the center", ("w",), _center_weight),
    "losses": Study("Losses of MCP++", (), _losses, default_method="mcp_plus"),
    "views": Study("Number of views", ("views",), _views),
    "writing": Study("Written before or after it is predicted", ("method", "when an image is written"), _writing),
    "orders": Study("Sensitivity to the order of the stream", ("method", "order"), _orders),
}


def study_by_name(name: str) -> Study:
    """A study, or one sentence with the names of all."""
    if arguments.text("the study's name", name) not in STUDIES:
        raise TrimtabError(f"There is no study {name!r}; choose one of {', '.join(STUDIES)}.")
    return STUDIES[name]
