"""Every method on the same stream of features, and what it cost."""

import time
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from trimtab.features import FeatureStore
from trimtab.fusion import oracle_weights
from trimtab.methods import list_methods, make_method, method_class
from trimtab.stream import Predictions, Stream

INTERVAL = 1.959964  # standard deviations on either side that hold 95 % of a normal distribution


@dataclass(frozen=True, eq=False)
class Finish:
    """One method's run over the stream."""

    name: str
    stream: Stream
    predictions: Predictions
    correct: NDArray[np.bool_]  # (N,)
    milliseconds: float  # per image

    @property
    def accuracy(self) -> float:
        """Top-1."""
        return float(self.correct.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy."""
        n, p, z = len(self.correct), self.accuracy, INTERVAL
        center, spread = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (center - spread) / (1 + z * z / n), (center + spread) / (1 + z * z / n)


@dataclass(frozen=True)
class Weighing:
    """A way to weigh MCP's parts, and the accuracy it gives."""

    name: str
    weights: str
    accuracy: float
    needs_labels: bool


def run_methods(store: FeatureStore) -> dict[str, Finish]:
    """Every method that needs nothing but features, on the stored images in their order."""
    return {name: run_method(name, store) for name in list_methods() if not method_class(name).needs}


def run_method(name: str, store: FeatureStore) -> Finish:
    """One method; a few images are run first so that compiling is not counted."""
    task, features = store.task(), store.rows(slice(0, len(store)))
    method = make_method(name)
    method.start(task).run(features[:80])
    stream = method.start(task)
    start = time.perf_counter()
    predictions = stream.run(features)
    milliseconds = 1e3 * (time.perf_counter() - start) / len(features)
    return Finish(name, stream, predictions, predictions.labels == store.labels, milliseconds)


def weigh(finish: Finish, labels: NDArray[np.int64]) -> list[Weighing]:
    """The same run under equal weights, under its own label-free rule, and under weights searched on the labels."""
    parts = finish.predictions.parts
    equal = float((sum(parts.values()).argmax(axis=1) == labels).mean())  # type: ignore[union-attr]
    best = oracle_weights(parts, labels)
    return [
        Weighing("fixed", ", ".join("1" for _ in parts), equal, needs_labels=False),
        Weighing("auto", "from the stream itself", finish.accuracy, needs_labels=False),
        Weighing("oracle", ", ".join(f"{w:g}" for w in best.weights), best.accuracy, needs_labels=True),
    ]
