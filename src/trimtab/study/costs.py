"""What adapting to one image costs, counted by formula: multiply-adds (2 operations each) of full caches.

Counted are the inner products with texts and stored items, the norms of retrieved vectors, the masks of negative items,
and for methods that learn the forward and backward products of a step. Left out are the image encoder (the same for all
methods with the same number of views), exponentials and bookkeeping, together a few percent. The count is of the
method's formulas, not of trimtab's code, which does less by reusing products between images.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trimtab.engine.equations import confident_count
from trimtab.methods.base import Method


@dataclass(frozen=True)
class Size:
    """The sizes that a count depends on."""

    classes: int
    dim: int
    views: int
    kept: int  # confident views

    def products(self, left: float, right: float) -> float:
        """Operations of the inner products of `left` with `right` vectors."""
        return 2.0 * left * right * self.dim

    def masks(self, slots: int) -> float:
        """Operations of letting `slots` negative items per class speak against all classes."""
        return 2.0 * self.classes * slots * self.classes

    def norms(self, items: int) -> float:
        """Operations of the norms of one weighted sum of `items` per class, from the items' own products."""
        return 2.0 * self.classes * items * items


def gflops_per_image(method: Method, *, classes: int, dim: int, views: int) -> float | None:
    """10^9 operations per image, or None for a method without a formula here."""
    count = COUNTS.get(method.name)
    if count is None:
        return None
    parameters = method.parameters()
    kept = confident_count(views, parameters.get("view_fraction", 1.0))
    return count(Size(classes, dim, views, kept), parameters) / 1e9


def _zero_shot(size: Size, parameters: dict[str, Any]) -> float:  # noqa: ARG001
    return size.products(1, size.classes)


def _mcp(size: Size, parameters: dict[str, Any]) -> float:
    items = parameters["entropy_slots"] + parameters["align_slots"]
    negatives = parameters["negative_slots"]
    return (
        size.products(size.views, size.classes)
        + size.products(1, size.classes * (items + negatives))
        + size.norms(items + 1)
        + size.masks(negatives)
    )


def _mcp_plus(size: Size, parameters: dict[str, Any]) -> float:
    """MCP, and one step: entropy over the views (forward), its gradients (backward), both sides of the alignment."""
    entropy = size.products(size.views, size.classes * (1 + parameters["negative_slots"]))
    backward = 2 * size.products(size.kept, size.classes)
    alignment = 3 * size.products(size.classes, size.classes) if parameters["align_weight"] else 0.0
    moved = size.products(size.kept + 2, size.classes)
    return _mcp(size, parameters) + entropy + backward + alignment + moved


def _dpe(size: Size, parameters: dict[str, Any]) -> float:
    """Zero-shot of the views, visual prototypes, one step with its one-sided alignment, and the moved prototypes."""
    step = 2 * size.products(1, size.classes) + size.products(1, size.classes * parameters["positive_slots"])
    alignment = 3 * size.products(size.classes, size.classes) if parameters["align_weight"] else 0.0
    return size.products(size.views, size.classes) + step + alignment + 2 * size.products(1, size.classes)


def _tps(size: Size, parameters: dict[str, Any]) -> float:  # noqa: ARG001
    return size.products(size.views, size.classes) + size.products(size.kept, size.classes) + _zero_shot(size, {})


def _tda(size: Size, parameters: dict[str, Any]) -> float:
    positives, negatives = parameters["positive_slots"], parameters["negative_slots"]
    return (
        size.products(size.views, size.classes)
        + size.products(1, size.classes * (positives + negatives))
        + size.masks(negatives)
    )


def _boostadapter(size: Size, parameters: dict[str, Any]) -> float:
    return _tda(size, parameters) + (size.products(1, size.kept) if size.views > 1 else 0)


def _dmn(size: Size, parameters: dict[str, Any]) -> float:
    items = parameters["memory_slots"]
    return size.products(size.views, size.classes) + size.products(1, size.classes * items) + size.norms(items + 1)


def _zero_vote(size: Size, parameters: dict[str, Any]) -> float:  # noqa: ARG001
    return size.products(size.views, size.classes)


COUNTS: dict[str, Callable[[Size, dict[str, Any]], float]] = {
    "zero_shot": _zero_shot,
    "zero_vote": _zero_vote,
    "tda": _tda,
    "boostadapter": _boostadapter,
    "dmn": _dmn,
    "mcp": _mcp,
    "mcp_plus": _mcp_plus,
    "tps": _tps,
    "dpe": _dpe,
}
