"""What a method's probabilities are worth: calibration, and telling right answers from wrong ones.

    python -m benchmarks.answers_study FOLDER METHOD ORDERS [STORE ...]

FOLDER as in benchmarks.method_study. Prints Markdown, one row per store and order: expected calibration error in
percent (20 bins) of zero-shot at the given logit scale and at its best temperature (ORACLE: chosen with labels), of the
method as it is, at a temperature from the labels of 50 images, and at its best (ORACLE); then AUROC, in percent, of
right answers against wrong ones: zero-shot by its probability, the method by its probability and by its score.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, STORES, method_name, run_study, words
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import ORDERS, arranged
from trimtab import Task, make_method
from trimtab.engine.equations import softmax
from trimtab.predictions import clearness
from trimtab.study.metrics import score, separation, temperature_of, tempered

Array = NDArray[np.float32]
COLUMNS = (
    "zero-shot ECE",
    "at its best (oracle)",
    "ECE",
    "with 50 labels",
    "at its best (oracle)",
    "zero-shot AUROC",
    "by probability",
    "by score",
)
ANSWERED = 50  # images whose labels set a temperature
FACTORS = np.exp(np.linspace(np.log(0.02), np.log(50), 61))


def lowest_error(probabilities: Array, labels: NDArray[np.int64]) -> float:
    """ECE at the temperature that makes it lowest: an oracle."""
    return min(score(tempered(probabilities, factor), labels).ece for factor in FACTORS)


def row(store: Store, order: str, method: str) -> list[float]:
    """The eight figures of a stream."""
    stream = arranged(store, order, 0)
    known = stream.labels >= 0
    labels = stream.labels[known]
    features = store.features[stream.indices]
    task = Task([str(c) for c in range(len(stream.text))], stream.text, store.logit_scale)
    text = softmax(np.float32(store.logit_scale) * (features[:, 0] @ stream.text.T))[known]
    found = make_method(method).start(task).run(features, keep_parts=False).probabilities[known]
    answered = np.random.default_rng(0).permutation(len(labels))[:ANSWERED]
    rest = np.setdiff1d(np.arange(len(labels)), answered)
    factor = temperature_of(found[answered], labels[answered])
    text_right, right = text.argmax(axis=1) == labels, found.argmax(axis=1) == labels
    figures = [
        score(text, labels).ece,
        lowest_error(text, labels),
        score(found, labels).ece,
        score(tempered(found[rest], factor), labels[rest]).ece,
        lowest_error(found, labels),
        separation(text.max(axis=1).astype(np.float64), text_right),
        separation(found.max(axis=1).astype(np.float64), right),
        separation(clearness(found).astype(np.float64), right),
    ]
    return [100 * figure for figure in figures]


def main(folder: Path, method: str, orders: list[str], wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print(f"| store | order | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    rows = []
    for store in stores:
        for order in orders:
            rows.append(row(store, order, method))
            print(
                f"| {store.name} | {order} | " + " | ".join(f"{figure:.1f}" for figure in rows[-1]) + " |", flush=True
            )
    print("| **mean** | | " + " | ".join(f"{figure:.1f}" for figure in np.nanmean(rows, axis=0)) + " |")


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, method_name(), words("ORDERS", ORDERS), STORES)
