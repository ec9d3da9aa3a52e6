"""The streams of the study: every store in every order, and what MCP's parts say along each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_study.stores import Store
from trimtab.data.orders import held_out_classes, order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods.mcp import MCP
from trimtab.task import Task

Array = NDArray[np.float32]

SHUFFLES = 2
HARD_SEEDS = 1
HARD = ("class-sorted", "dirichlet", "long-tailed", "open-set")
HELD_OUT = 0.3

# Orders of a store's own classes, as `order_by_name` knows them; an open set has classes that the task does not know.
DRAWN = {
    "shuffled": "shuffled",
    "class-sorted": "class-sorted",
    "dirichlet": "dirichlet:0.1",
    "long-tailed": "long-tailed:50",
    "few-classes": "few-classes:5",
    "domains": "domain-sequence",
}
ORDERS = (*DRAWN, "open-set")


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
    if order == "domains" and store.domain is None:
        raise TrimtabError(f"{store.name} knows no domains; leave out the order 'domains', or this store.")
    domains = None if store.domain is None else [str(domain) for domain in store.domain]
    indices = order_by_name(DRAWN[order], labels=labels, domains=domains, seed=seed)
    return Arranged(indices, labels[indices], store.text)


def parts_of(store: Store, stream: Arranged, method: MCP) -> dict[str, Array]:
    """Part name -> (N, C): no part depends on the fusion."""
    task = Task([str(c) for c in range(len(stream.text))], stream.text, store.logit_scale)
    return method.start(task).run(store.features[stream.indices]).parts
