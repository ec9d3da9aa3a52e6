"""A stream that takes in half of a store and is then frozen: what `predict` and `read` say of other images.

    python -m benchmarks.guard_study.frozen FOLDER METHODS [STORE ...]

Prints Markdown: top-1 in percent of at most 400 images that the stream never takes in. `online` steps through the same
images, one after the other, as a live stream would.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.fusion_study.stores import Store, load_stores
from trimtab import Task, make_method

JUDGED = 400


def row(store: Store, method: str, seed: int = 0) -> list[float]:
    """Top-1 in percent of zero-shot, `read`, `predict` and `step` on the same images."""
    order = np.random.default_rng(seed).permutation(len(store.labels))
    half = len(order) // 2
    taken, judged = order[:half], order[half : half + JUDGED]
    stream = make_method(method).start(Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale))
    stream.run(store.features[taken], keep_parts=False)
    images, labels = store.features[judged], store.labels[judged]
    answers = [
        (images[:, 0] @ store.text.T).argmax(axis=1),
        np.array([stream.read(image).label for image in images]),
        np.array([stream.predict(image).label for image in images]),
        np.array([stream.step(image).label for image in images]),
    ]
    return [100 * float((answer == labels).mean()) for answer in answers]


def main(folder: Path, methods: list[str], wanted: list[str]) -> None:
    print("| store | method | zero-shot | read (bare) | predict | online |\n|---|---|---|---|---|---|")
    for store in load_stores(folder, wanted):
        for method in methods:
            cells = " | ".join(f"{cell:.1f}" for cell in row(store, method))
            print(f"| {store.name} | {method} | {cells} |", flush=True)


if __name__ == "__main__":
    _, place, names, *stores = sys.argv
    main(Path(place), names.split(","), stores)
