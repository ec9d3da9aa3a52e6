"""Methods over stores and orders, every cell.

    python -m benchmarks.method_study FOLDER METHODS ORDERS SEEDS [STORE ...]

FOLDER holds .npz files as in benchmarks.fusion_study.stores; METHODS and ORDERS are names with commas between, or "all"
orders. How a method weighs its parts may follow its name: mcp:auto-orderless. Prints Markdown: zero-shot top-1 in
percent, and each method's difference to it, means over the seeds. The tables of docs/keel.md were made with it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, STORES, Argument, run_study, whole, words
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import ORDERS, Arranged, arranged
from trimtab import Task
from trimtab.engine.equations import softmax
from trimtab.methods import Method, make_method

ALL = ["shuffled", "class-sorted", "dirichlet", "long-tailed", "few-classes", "open-set"]  # of any store


def made(words: str) -> dict[str, Method]:
    """The methods of some names with commas between, each with what may follow it."""
    methods = {}
    for word in words.split(","):
        name, _, fusion = word.partition(":")
        methods[word] = make_method(name, **({"fusion": fusion} if fusion else {}))
    return methods


METHODS = Argument("METHODS", made)


def answers(store: Store, stream: Arranged, methods: Iterable[Method]) -> Iterator[NDArray[np.float32]]:
    """(N, C) probabilities: zero-shot's at the given logit scale, and each method's."""
    task = Task([str(c) for c in range(len(stream.text))], stream.text, store.logit_scale)
    features = store.features[stream.indices]
    yield softmax(np.float32(store.logit_scale) * (features[:, 0] @ stream.text.T))
    for method in methods:
        yield method.start(task).run(features, keep_parts=False).probabilities


def gains(store: Store, stream: Arranged, methods: Iterable[Method]) -> list[float]:
    """Zero-shot accuracy in percent, and what each method adds."""
    first, *rest = (stream.accuracy(given) for given in answers(store, stream, methods))
    return [first, *(accuracy - first for accuracy in rest)]


def row(name: str, order: str, cells: np.ndarray) -> str:
    return f"| {name} | {order} | {cells[0]:.1f} | " + " | ".join(f"{cell:+.1f}" for cell in cells[1:]) + " |"


def main(folder: Path, methods: dict[str, Method], orders: list[str], seeds: int, wanted: list[str]) -> None:
    orders = ALL if "all" in orders else orders
    stores = load_stores(folder, wanted)
    print(f"| store | order | zero-shot | {' | '.join(methods)} |\n|---|---|---|{'---|' * len(methods)}")
    found: dict[str, list[np.ndarray]] = {order: [] for order in orders}
    for store in stores:
        for order in orders:
            streams = (arranged(store, order, seed) for seed in range(seeds))
            cells = np.mean([gains(store, stream, list(methods.values())) for stream in streams], axis=0)
            found[order].append(cells)
            print(row(store.name, order, cells), flush=True)
    for order, rows in found.items():
        print(row("**mean**", order, np.mean(rows, axis=0)))
        lowest = np.min(rows, axis=0)[1:]
        print(f"| **lowest** | {order} | | " + " | ".join(f"{cell:+.1f}" for cell in lowest) + " |")


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, METHODS, words("ORDERS", ("all", *ORDERS)), whole("SEEDS"), STORES)
