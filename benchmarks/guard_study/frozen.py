"""A stream that takes in half of a store and is then frozen: what `predict` and `read` say of other images.

    python -m benchmarks.guard_study.frozen FOLDER METHODS JUDGED SEEDS [STORE ...]

Prints Markdown: top-1 in percent of at most JUDGED images that the frozen stream never takes in. `online` steps through
the same images, one after the other, as a live stream would; so it has learned more at each of them. How much that is
worth is seen in the later half of them: `later` is a stream that took in the earlier half, too, before it was frozen.
`alone` is a step of a copy of the frozen stream, image by image: what freezing itself changes, if anything. Differences
are paired, with their standard errors.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, METHODS, STORES, run_study, whole
from benchmarks.fusion_study.stores import Store, load_stores
from trimtab import Task, make_method

ZERO_SHOT, READ, ALONE, PREDICT, ONLINE, LATER = range(6)


def right(store: Store, method: str, judged: int, seed: int) -> NDArray[np.bool_]:
    """(6, n): whether each of the ways above is right on the same images; `later` of their later half."""
    order = np.random.default_rng(seed).permutation(len(store.labels))
    half = len(order) // 2
    taken, asked = order[:half], order[half : half + judged]
    stream = make_method(method).start(Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale))
    stream.run(store.features[taken], keep_parts=False)
    stream.cut()
    images, middle = store.features[asked], len(asked) // 2
    online, later = stream.copy(), stream.copy()
    later.run(images[:middle], keep_parts=False)
    answers = np.empty((6, len(asked)), np.int64)
    for k, image in enumerate(images):
        answers[ZERO_SHOT, k] = (image[0] @ store.text.T).argmax()
        answers[READ, k] = stream.read(image).label
        answers[ALONE, k] = stream.copy().step(image).label
        answers[PREDICT, k] = stream.predict(image).label
        answers[ONLINE, k] = online.step(image).label
        answers[LATER, k] = later.predict(image).label
    return np.equal(answers, store.labels[asked])


def difference(frozen: NDArray[np.bool_], online: NDArray[np.bool_]) -> str:
    """Points of `frozen` above `online`, and the standard error."""
    each = 100 * np.subtract(frozen, online, dtype=np.float64).ravel()
    return f"{each.mean():+.1f} ± {each.std() / np.sqrt(len(each)):.1f}"


def main(folder: Path, methods: list[str], judged: int, seeds: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print("| store | method | zero-shot | `read` | alone | `predict` | online | predict - online", end="")
    print(" | later half: predict - online | later - online |\n|---|---|---|---|---|---|---|---|---|---|")
    for store in stores:
        for method in methods:
            found = np.stack([right(store, method, judged, seed) for seed in range(seeds)], axis=1)  # (6, seeds, n)
            accuracies = " | ".join(f"{100 * part.mean():.1f}" for part in found[:LATER])
            late = found[:, :, found.shape[2] // 2 :]
            differences = (
                difference(found[PREDICT], found[ONLINE]),
                difference(late[PREDICT], late[ONLINE]),
                difference(late[LATER], late[ONLINE]),
            )
            print(f"| {store.name} | {method} | {accuracies} | {' | '.join(differences)} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, METHODS, whole("JUDGED"), whole("SEEDS"), STORES)
