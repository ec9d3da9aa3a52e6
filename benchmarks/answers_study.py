"""What a method's probabilities are worth: calibration, and telling right answers from wrong ones.

    python -m benchmarks.answers_study FOLDER METHOD ORDERS [STORE ...]

FOLDER as in benchmarks.method_study. Prints Markdown, one row per store and order: expected calibration error in
percent (20 bins) of zero-shot at the given logit scale and at its best temperature (ORACLE: chosen with labels), of the
method as it is, at a temperature from the labels of 50 images, and at its best (ORACLE); then AUROC, in percent, of
right answers against wrong ones: zero-shot by its probability, the method by its probability and by its score. Below
it, zero-shot's error at the one temperature that is best for all stores of an encoder's family (ORACLE). A family is
known by the logit scale that comes with its encoder.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

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


class Stream(NamedTuple):
    """What is measured on one stream, in percent."""

    logit_scale: float
    text_errors: list[float]  # zero-shot's ECE at each of FACTORS
    figures: list[float]  # of COLUMNS


def errors_of(probabilities: Array, labels: NDArray[np.int64]) -> list[float]:
    """ECE at each of FACTORS."""
    return [100 * score(tempered(probabilities, factor), labels).ece for factor in FACTORS]


def measured(store: Store, order: str, method: str) -> Stream:
    """One method along one stream."""
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
    text_errors = errors_of(text, labels)
    figures = [
        100 * score(text, labels).ece,
        min(text_errors),
        100 * score(found, labels).ece,
        100 * score(tempered(found[rest], factor), labels[rest]).ece,
        min(errors_of(found, labels)),
        100 * separation(text.max(axis=1).astype(np.float64), text_right),
        100 * separation(found.max(axis=1).astype(np.float64), right),
        100 * separation(clearness(found).astype(np.float64), right),
    ]
    return Stream(store.logit_scale, text_errors, figures)


def at_one_temperature(streams: list[Stream]) -> str:
    """Of zero-shot and of the method, for each family of encoders and for all of them."""
    lines, errors, ours = [], [], []
    for scale in sorted({stream.logit_scale for stream in streams}):
        family = [stream for stream in streams if stream.logit_scale == scale]
        curve = np.mean([stream.text_errors for stream in family], axis=0)
        own = [stream.figures[COLUMNS.index("ECE")] for stream in family]
        lines.append(f"| {scale:g} | {len(family)} | {min(curve):.1f} | {np.mean(own):.1f} |")
        errors += [min(curve)] * len(family)
        ours += own
    return "\n".join([*lines, f"| **all** | {len(streams)} | {np.mean(errors):.1f} | {np.mean(ours):.1f} |"])


def main(folder: Path, method: str, orders: list[str], wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print(f"| store | order | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    streams = []
    for store in stores:
        for order in orders:
            streams.append(measured(store, order, method))
            print(f"| {store.name} | {order} | {_cells(streams[-1].figures)} |", flush=True)
    print(f"| **mean** | | {_cells(np.nanmean([stream.figures for stream in streams], axis=0))} |\n")
    print("| logit scale | streams | zero-shot, one temperature for all (oracle) | method |\n|---|---|---|---|")
    print(at_one_temperature(streams))


def _cells(figures: Iterable[float]) -> str:
    return " | ".join(f"{figure:.1f}" for figure in figures)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, method_name(), words("ORDERS", ORDERS), STORES)
