"""How far a stream falls below zero-shot for a while: the worst window of 500 images, falling back and not.

    python -m benchmarks.guard_study.windows FOLDER METHODS ORDERS SEEDS [STORE ...]

Prints Markdown: zero-shot top-1, each method's gain over the whole stream, and its least gain over any 500 images in a
row after the first 200, every figure a mean over the seeds; with a guard that does not fall back / with one that does.
A `drift` order is two halves of the images, the second under other features: every feature mixed with one direction.
`poisoned` begins with ten crafted images per class, which are not scored. At most 2,500 images are played; of a sorted
store that is its first classes.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, METHODS, STORES, run_study, whole, words
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import ORDERS, arranged
from trimtab import Guard, Task, make_method
from trimtab.study.attack.crafting import Victim, poisoned

Array = NDArray[np.float32]

WINDOW, AFTER, MOST = 500, 200, 2500
SHUFFLED = ("drift", "poisoned")  # orders that begin as a shuffled stream


def played(store: Store, order: str, seed: int) -> tuple[Array, NDArray[np.int64], Array]:
    """The features of a stream (n, d), their labels, -1 where there is none, and the text prototypes."""
    stream = arranged(store, "shuffled" if order in SHUFFLED else order, seed)
    features, labels = store.features[stream.indices[:MOST]][:, 0].copy(), stream.labels[:MOST]
    if order == "drift":
        direction = np.random.default_rng(seed).normal(size=features.shape[1:]).astype(np.float32)
        features[len(features) // 2 :] += 0.7 * direction / np.linalg.norm(direction)
        features /= np.linalg.norm(features, axis=1, keepdims=True)
    if order == "poisoned":
        arriving = poisoned("first", Victim(features, labels, stream.text, store.logit_scale), seed)
        scored = np.full(len(arriving.features), -1)
        scored[arriving.clean] = labels
        return arriving.features, scored, stream.text
    return features, labels, stream.text


def gains(store: Store, order: str, seed: int, method: str, guard: Guard | None) -> tuple[float, NDArray[np.float64]]:
    """Zero-shot top-1 in percent, and per image of a known class: the method right less zero-shot right."""
    features, labels, prototypes = played(store, order, seed)
    task = Task([str(c) for c in range(len(prototypes))], prototypes, store.logit_scale)
    answers = make_method(method).start(task, guard).run(features, keep_parts=False).labels
    text = (features @ prototypes.T).argmax(axis=1)
    known = labels >= 0
    right, text_right = np.equal(answers, labels)[known], np.equal(text, labels)[known]
    return 100 * float(text_right.mean()), 100 * np.subtract(right, text_right, dtype=np.float64)


def worst(differences: list[NDArray[np.float64]]) -> float:
    """The least mean of any window, in percent, averaged over the orders before the least is taken."""
    length = min(map(len, differences))
    mean = np.mean([difference[:length] for difference in differences], axis=0)[AFTER:]
    window = min(WINDOW, len(mean))
    sums = np.concatenate([[0.0], np.cumsum(mean)])
    return float((sums[window:] - sums[:-window]).min() / window)


def main(folder: Path, methods: list[str], orders: list[str], seeds: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print("| store | order | method | zero-shot | gain | least gain of any 500 |\n|---|---|---|---|---|---|")
    for store in stores:
        for order in orders:
            for method in methods:
                cells = []
                for guard in (Guard(fall_back=False), Guard()):
                    found = [gains(store, order, seed, method, guard) for seed in range(seeds)]
                    cells.append((np.mean([d.mean() for _, d in found]), worst([d for _, d in found])))
                (without, least), (falling, least_falling) = cells
                zero_shot = np.mean([z for z, _ in found])
                figures = f"{zero_shot:.1f} | {without:+.1f} / {falling:+.1f} | {least:+.1f} / {least_falling:+.1f}"
                print(f"| {store.name} | {order} | {method} | {figures} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, METHODS, words("ORDERS", (*ORDERS, *SHUFFLED)), whole("SEEDS"), STORES)
