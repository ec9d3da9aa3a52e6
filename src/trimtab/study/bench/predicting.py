"""What decides a run's figures: the rows that its method sees, in their order, and the weights of the parts.

A record depends on this module and on all that it imports (see `dependencies`), so bookkeeping has no place here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trimtab.data.orders import order_by_name
from trimtab.engine.arrays import Array, Doubles
from trimtab.fusion import FixedWeights, Fusion, oracle_weights
from trimtab.lazy_views import LazyViews
from trimtab.methods.base import Method
from trimtab.stream import BLOCK, Predictions
from trimtab.task import Task

if TYPE_CHECKING:
    from trimtab.features import FeatureStore

AT_ONCE = 1024  # images whose parts are weighed in one go


class OrderedRows:
    """A store's features in a stream's order, read as they are asked for."""

    def __init__(self, store: "FeatureStore", order: NDArray[np.int64], views: int | None = None) -> None:
        self._store, self._order = store, order
        self.shape = (len(order), views or store.views, store.dim)
        self.labels = store.labels[order]
        self.rows_checked = store.rows_checked

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, rows: slice) -> NDArray[np.floating[Any]]:
        return self._store.rows(self._order[rows])[:, : self.shape[1]]


class LazyRows(OrderedRows):
    """The same, where a method sees only the views that `LazyViews` would have had encoded, repeated in turn."""

    def __init__(self, store: "FeatureStore", order: NDArray[np.int64], views: int | None, budget: float) -> None:
        super().__init__(store, order, views)
        lazy = LazyViews(store.task(), self.shape[1], budget)
        whole = OrderedRows(store, order, views)
        blocks = (whole[start : start + BLOCK] for start in range(0, len(order), BLOCK))
        self._encoded = np.array([len(lazy.look(image)) for block in blocks for image in block])
        self.views_per_image = lazy.views_per_image

    def __getitem__(self, rows: slice) -> NDArray[np.floating[Any]]:
        which = np.arange(self.shape[1]) % self._encoded[rows][:, None]
        return np.take_along_axis(super().__getitem__(rows), which[:, :, None], axis=1)


def rows_in_order(
    store: "FeatureStore", order: str, seed: int, views: int | None = None, budget: float | None = None
) -> OrderedRows:
    """The rows of a store in an order by its name; only the first `views` of each image, if so many are given.

    With a `budget`, of these only as many as it allows on average.
    """
    indices = order_by_name(order, labels=store.labels, domains=store.domains, seed=seed)
    return OrderedRows(store, indices, views) if budget is None else LazyRows(store, indices, views, budget)


def with_fixed_weights(method: Method) -> Method:
    """The method under its own fixed weights; parts are weighed alike where it would choose weights as it goes."""
    if isinstance(method.parameters().get("fusion"), str):
        return with_fusion(method, (1.0,) * len(method.parts))
    return method


def with_fusion(method: Method, fusion: str | tuple[float, ...]) -> Method:
    """The same method with its parts weighed in another way."""
    changes: dict[str, Any] = {"fusion": fusion}
    return replace(method, **changes)


class Overheard:
    """A stream's fusion, and what it is told of how sure answers should be: to weigh the same parts once more."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._told: list[Doubles] = []
        self.combine, self.cut, self.arrays, self.report = fusion.combine, fusion.cut, fusion.arrays, fusion.report

    def sure(self, images: int) -> Doubles | None:
        """(N,): of the whole stream of N images, if it was told of each."""
        told = np.concatenate(self._told) if self._told else np.empty(0)
        return told if len(told) == images else None

    def step(self, parts: Mapping[str, Array], sure: float | None = None) -> Array:
        """As the fusion."""
        self._told += [] if sure is None else [np.array([sure])]
        return self._fusion.step(parts, sure)

    def walk(self, parts: Mapping[str, Array], sure: Doubles | None = None) -> Array:
        """As the fusion."""
        self._told += [] if sure is None else [sure]
        return self._fusion.walk(parts, sure)


def weigh(
    weights: str,
    method: Method,
    task: Task,
    predictions: Predictions,
    labels: NDArray[np.int64],
    sure: Doubles | None = None,
) -> tuple[Array, dict[str, float]]:
    """The parts made one, (N, C), and the weight of each part. No method's parts depend on the weights.

    `sure` (N,) is how sure answers should be on average, as the stream was told.
    """
    parts = predictions.parts
    if weights == "fixed":
        return predictions.probabilities, method.new_fusion(task).report()
    if weights == "oracle":
        known = labels >= 0
        seen = parts if known.all() else {name: part[known] for name, part in parts.items()}  # no copy without need
        found = oracle_weights(seen, labels[known])
        fusion = FixedWeights(method.parts, found.weights)
        return fusion.combine(parts), fusion.report()
    automatic = with_fusion(method, "auto").new_fusion(task)
    fused = np.empty_like(predictions.probabilities)
    for first in range(0, len(fused), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        told = None if sure is None else sure[rows]
        fused[rows] = automatic.walk({name: part[rows] for name, part in parts.items()}, told)
    return fused, {name: value for name, value in automatic.report().items() if isinstance(value, float)}
