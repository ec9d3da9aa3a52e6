"""A stream that takes in half of a store and is then frozen: what `predict` and `read` say of other images.

    python -m benchmarks.guard_study.frozen FOLDER METHODS JUDGED SEEDS [STORE ...]

Prints Markdown: top-1 in percent of at most JUDGED images that the frozen stream never takes in. `online` steps through
the same images, one after the other, as a live stream would; so it has learned more at each of them. The difference is
paired, with its standard error, over all of them and over the first and the second half: what is due to freezing grows.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_study.stores import Store, load_stores
from trimtab import Task, make_method


def right(store: Store, method: str, judged: int, seed: int) -> NDArray[np.bool_]:
    """(4, n): whether zero-shot, `read`, `predict` and `step` are right on the same images."""
    order = np.random.default_rng(seed).permutation(len(store.labels))
    half = len(order) // 2
    taken, asked = order[:half], order[half : half + judged]
    stream = make_method(method).start(Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale))
    stream.run(store.features[taken], keep_parts=False)
    images = store.features[asked]
    answers = [
        (images[:, 0] @ store.text.T).argmax(axis=1),
        np.array([stream.read(image).label for image in images]),
        np.array([stream.predict(image).label for image in images]),
        np.array([stream.step(image).label for image in images]),
    ]
    return np.equal(answers, store.labels[asked])


def difference(frozen: NDArray[np.bool_], online: NDArray[np.bool_]) -> str:
    """Points of `frozen` above `online`, and the standard error."""
    each = 100 * np.subtract(frozen, online, dtype=np.float64).ravel()
    return f"{each.mean():+.1f} ± {each.std() / np.sqrt(len(each)):.1f}"


def main(folder: Path, methods: list[str], judged: int, seeds: int, wanted: list[str]) -> None:
    print("| store | method | zero-shot | `read` | `predict` | online | predict - online | first half | second half |")
    print("|---|---|---|---|---|---|---|---|---|")
    for store in load_stores(folder, wanted):
        for method in methods:
            found = np.stack([right(store, method, judged, seed) for seed in range(seeds)], axis=1)  # (4, seeds, n)
            accuracies = " | ".join(f"{100 * part.mean():.1f}" for part in found)
            frozen, online = found[2], found[3]
            middle = frozen.shape[1] // 2
            parts = (slice(None), slice(None, middle), slice(middle, None))
            differences = " | ".join(difference(frozen[:, part], online[:, part]) for part in parts)
            print(f"| {store.name} | {method} | {accuracies} | {differences} |", flush=True)


if __name__ == "__main__":
    _, place, names, number, count, *stores = sys.argv
    main(Path(place), names.split(","), int(number), int(count), stores)
