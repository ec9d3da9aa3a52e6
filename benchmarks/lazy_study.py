"""What a view budget costs in accuracy: methods on stores of many views, in shuffled orders.

    python -m benchmarks.lazy_study METHODS ORDERS STORE [STORE ...]

METHODS are names with commas between; the stores come from `trimtab encode --views 32`. Prints Markdown: top-1 in
percent with all views, and the difference to it with the plain view alone and under the budget, with the standard error
over the orders. The table of docs/lazy-views.md was made with it.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import METHODS, Argument, run_study, whole
from trimtab import make_method
from trimtab.features import FeatureStore
from trimtab.lazy_views import LazyViews, repeated

BUDGET = 4


def main(methods: list[str], orders: int, stores: list[FeatureStore]) -> None:
    print(f"| set | views encoded | method | all views | plain view | budget of {BUDGET} |\n|---|---|---|---|---|---|")
    for store in stores:
        show(methods, orders, store)


def show(methods: list[str], orders: int, store: FeatureStore) -> None:
    task, rows = store.task(), np.asarray(store.features, np.float32)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    right: dict[str, dict[str, list[float]]] = {name: {"all": [], "plain": [], "lazy": []} for name in methods}
    encoded = []
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(rows))
        views, lazy = rows[order], LazyViews(task, store.views, BUDGET)
        shown = {
            "all": views,
            "plain": views[:, :1],
            "lazy": np.stack([repeated(lazy.look(image), store.views) for image in views]),
        }
        encoded.append(lazy.views_per_image)
        for name, found in right.items():
            for kind, seen in shown.items():
                found[kind].append(accuracy(make_method(name).start(task).run(seen).labels, store.labels[order]))
    for name, found in right.items():
        gains = " | ".join(gain(found[kind], found["all"]) for kind in ("plain", "lazy"))
        print(
            f"| {store.info.dataset} | {np.mean(encoded):.1f} | {name} | {np.mean(found['all']):.1f} | {gains} |",
            flush=True,
        )


def accuracy(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    return 100 * float((labels == truth).mean())


def gain(found: list[float], all_views: list[float]) -> str:
    differences = np.subtract(found, all_views)
    return f"{differences.mean():+.1f} ± {differences.std(ddof=1) / len(differences) ** 0.5:.1f}"


if __name__ == "__main__":
    run_study(main, __doc__, METHODS, whole("ORDERS"), Argument("STORE", FeatureStore.open, many="+"))
