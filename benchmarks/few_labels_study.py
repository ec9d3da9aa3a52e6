"""Methods on tasks of few labels: random classes of a store, and the images that show them.

    python -m benchmarks.few_labels_study FOLDER METHODS COUNTS DRAWS [STORE ...]

FOLDER and METHODS as in benchmarks.method_study; COUNTS are numbers of labels with commas between. Each draw has other
classes and another shuffled order of at most 1,500 of their images. Prints Markdown: zero-shot top-1 in percent and
each method's difference to it, means over the draws, with the lowest draw in brackets; then the expected calibration
error, in percent, of zero-shot at the given logit scale and of each method.
"""

from pathlib import Path

import numpy as np

from benchmarks.command_line import FOLDER, STORES, run_study, whole, wholes
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import Arranged
from benchmarks.method_study import METHODS, answers
from trimtab.methods import Method
from trimtab.study.metrics import score

IMAGES = 1500


def drawn(store: Store, labels: int, seed: int) -> Arranged:
    """Images of so many random classes, or of all there are."""
    random = np.random.default_rng(seed)
    classes = random.choice(len(store.text), min(labels, len(store.text)), replace=False)
    task_label = np.full(len(store.text), -1)
    task_label[classes] = np.arange(len(classes))
    images = random.permutation(np.flatnonzero(task_label[store.labels] >= 0))[:IMAGES]
    return Arranged(images, task_label[store.labels[images]], store.text[classes])


def measured(store: Store, stream: Arranged, methods: list[Method]) -> tuple[list[float], list[float]]:
    """Zero-shot accuracy in percent and what each method adds; the calibration errors of all of them."""
    found = [score(probabilities, stream.labels) for probabilities in answers(store, stream, methods)]
    first, *rest = (100 * each.accuracy for each in found)
    return [first, *(top1 - first for top1 in rest)], [100 * each.ece for each in found]


def main(folder: Path, methods: dict[str, Method], counts: list[int], draws: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    errors = [f"{name} ECE" for name in ("zero-shot", *methods)]
    print(f"| store | labels | zero-shot | {' | '.join([*methods, *errors])} |")
    print(f"|---|---|---|{'---|' * (2 * len(methods) + 1)}")
    found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {count: [] for count in counts}
    for store in stores:
        for count in counts:
            each = [measured(store, drawn(store, count, seed), list(methods.values())) for seed in range(draws)]
            gained, off = np.array([row for row, _ in each]), np.array([row for _, row in each])
            found[count].append((gained.mean(axis=0), off.mean(axis=0)))
            print(_row(store.name, count, gained.mean(axis=0), gained.min(axis=0), off.mean(axis=0)), flush=True)
    for count, means in found.items():
        gained, off = np.array([row for row, _ in means]), np.array([row for _, row in means])
        print(_row("**mean** (lowest store)", count, gained.mean(axis=0), gained.min(axis=0), off.mean(axis=0)))


def _row(name: str, count: int, mean: np.ndarray, lowest: np.ndarray, errors: np.ndarray) -> str:
    cells = [f"{gain:+.1f} ({least:+.1f})" for gain, least in zip(mean[1:], lowest[1:], strict=True)]
    cells += [f"{error:.1f}" for error in errors]
    return f"| {name} | {count} | {mean[0]:.1f} | {' | '.join(cells)} |"


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, METHODS, wholes("COUNTS"), whole("DRAWS"), STORES)
