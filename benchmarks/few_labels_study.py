"""Methods on tasks of few labels: random classes of a store, and the images that show them.

    python -m benchmarks.few_labels_study FOLDER METHODS COUNTS DRAWS [STORE ...]

FOLDER and METHODS as in benchmarks.method_study; COUNTS are numbers of labels with commas between. Each draw has other
classes and another shuffled order of at most 1,500 of their images. Prints Markdown: zero-shot top-1 in percent and
each method's difference to it, means over the draws, with the lowest draw in brackets.
"""

from pathlib import Path

import numpy as np

from benchmarks.command_line import FOLDER, STORES, run_study, whole, wholes
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import Arranged
from benchmarks.method_study import METHODS, gains
from trimtab.methods import Method

IMAGES = 1500


def drawn(store: Store, labels: int, seed: int) -> Arranged:
    """Images of so many random classes, or of all there are."""
    random = np.random.default_rng(seed)
    classes = random.choice(len(store.text), min(labels, len(store.text)), replace=False)
    task_label = np.full(len(store.text), -1)
    task_label[classes] = np.arange(len(classes))
    images = random.permutation(np.flatnonzero(task_label[store.labels] >= 0))[:IMAGES]
    return Arranged(images, task_label[store.labels[images]], store.text[classes])


def main(folder: Path, methods: dict[str, Method], counts: list[int], draws: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print(f"| store | labels | zero-shot | {' | '.join(methods)} |\n|---|---|---|{'---|' * len(methods)}")
    found: dict[int, list[np.ndarray]] = {count: [] for count in counts}
    for store in stores:
        for count in counts:
            rows = np.array([gains(store, drawn(store, count, seed), list(methods.values())) for seed in range(draws)])
            found[count].append(rows.mean(axis=0))
            print(_row(store.name, count, rows.mean(axis=0), rows.min(axis=0)), flush=True)
    for count, means in found.items():
        print(_row("**mean** (lowest store)", count, np.mean(means, axis=0), np.min(means, axis=0)))


def _row(name: str, count: int, mean: np.ndarray, lowest: np.ndarray) -> str:
    cells = (f"{gain:+.1f} ({least:+.1f})" for gain, least in zip(mean[1:], lowest[1:], strict=True))
    return f"| {name} | {count} | {mean[0]:.1f} | {' | '.join(cells)} |"


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, METHODS, wholes("COUNTS"), whole("DRAWS"), STORES)
