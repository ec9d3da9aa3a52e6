"""The streams of the study: every store in every order, and what MCP's parts say along each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_study.stores import Store
from trimtab.data import orders
from trimtab.data.orders import held_out_classes
from trimtab.methods.mcp import MCP
from trimtab.task import Task

Array = NDArray[np.float32]

SHUFFLES = 2
HARD_SEEDS = 1
HARD = ("class-sorted", "dirichlet", "long-tailed", "open-set")
IMBALANCE = 50.0
HELD_OUT = 0.3


@dataclass(frozen=True, eq=False)
class Arranged:
    """A store in an order. Images of classes that the task does not know have the label -1 and are not scored."""

    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    text: Array

    def accuracy(self, scores: Array) -> float:
        """Percent of the known images whose best class is right."""
        known = self.labels >= 0
        return 100 * float((scores[known].argmax(axis=1) == self.labels[known]).mean())


def orders_of(store: Store) -> list[tuple[str, int]]:
    """The orders and seeds of a store."""
    found = [("shuffled", seed) for seed in range(SHUFFLES)]
    hard = (*HARD, "domains") if store.domain is not None else HARD
    return found + [(order, seed) for order in hard for seed in range(HARD_SEEDS)]


def arranged(store: Store, order: str, seed: int) -> Arranged:
    """The images in their order, their labels, and the text prototypes of the classes that the task knows."""
    labels = store.labels
    if order == "open-set":
        opened = held_out_classes(labels, HELD_OUT, seed=seed)
        return Arranged(opened.indices, opened.task_labels(labels), store.text[opened.known_classes])
    if order == "shuffled":
        indices = orders.shuffled(len(labels), seed=seed)
    elif order == "class-sorted":
        indices = orders.class_sorted(labels, seed=seed)
    elif order == "dirichlet":
        indices = orders.dirichlet(labels, 0.1, seed=seed)
    elif order == "long-tailed":
        indices = orders.long_tailed(labels, IMBALANCE, seed=seed)
    elif order == "few-classes":
        indices = orders.few_classes(labels, 5, seed=seed)
    elif order == "domains" and store.domain is not None:
        indices = orders.domain_sequence([str(domain) for domain in store.domain], seed=seed)
    else:
        raise ValueError(f"{store.name} cannot be played in the order {order!r}")
    return Arranged(indices, labels[indices], store.text)


def parts_of(store: Store, stream: Arranged, method: MCP) -> dict[str, Array]:
    """Part name -> (N, C): no part depends on the fusion."""
    task = Task([str(c) for c in range(len(stream.text))], stream.text, store.logit_scale)
    return method.start(task).run(store.features[stream.indices]).parts
