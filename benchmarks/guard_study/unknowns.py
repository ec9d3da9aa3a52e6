"""How well images that show none of the classes are told: AUROC and FPR95 of the guard's score beside three others.

    python -m benchmarks.guard_study.unknowns FOLDER SEEDS

Real mixtures: images of another store of the same encoder among a store's own; and stores half of whose classes the
task does not know. MEASURED WITH LABELS; the scores use none. Prints Markdown.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, run_study, whole
from benchmarks.fusion_study.stores import Store, load_stores
from trimtab.engine.equations import softmax

Array = NDArray[np.float32]

MIXTURES = (
    ("lite_cifar10", "lite_fashion"),
    ("lite_cifar10", "lite_groceries_fine"),
    ("lite_fashion", "lite_cifar10"),
    ("lite_groceries_fine", "lite_cifar10"),
    ("lite_emoji_fine", "lite_fashion"),
    ("pacs_lite", "lite_fashion"),
    ("lite_cifar10_corrupted", "lite_groceries_fine"),
)
MOST = 1000


def scores(features: Array, text: Array, scale: float) -> dict[str, NDArray[np.floating]]:
    """High for images of known classes."""
    cosines = (features @ text.T).astype(np.float64)
    highest = cosines.max(axis=1)
    return {
        "maximal probability": softmax((scale * cosines).astype(np.float32)).max(axis=1),
        "maximal cosine": highest,
        "energy": scale * highest + np.log(np.exp(scale * (cosines - highest[:, None])).sum(axis=1)),
        "2 max - mean": 2 * highest - cosines.mean(axis=1),
    }


def auroc(known: NDArray[np.floating], unknown: NDArray[np.floating]) -> float:
    """Percent of pairs in which the known image has the higher score."""
    ranks = np.concatenate([known, unknown]).argsort().argsort()[: len(known)] + 1
    return 100 * float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(unknown)))


def fpr95(known: NDArray[np.floating], unknown: NDArray[np.floating]) -> float:
    """Percent of the unknown images that pass where 95 % of the known ones do."""
    return 100 * float((unknown >= np.quantile(known, 0.05)).mean())


def row(name: str, drawn: list[tuple[Array, Array, float, NDArray[np.bool_]]]) -> dict[str, tuple[float, float]]:
    """Print a line, means over the draws of (features, text, scale, known)."""
    found: dict[str, list[tuple[float, float]]] = {}
    for features, text, scale, known in drawn:
        for score, values in scores(features, text, scale).items():
            found.setdefault(score, []).append(
                (auroc(values[known], values[~known]), fpr95(values[known], values[~known]))
            )
    means = {
        score: (float(np.mean([a for a, _ in v])), float(np.mean([f for _, f in v]))) for score, v in found.items()
    }
    print(f"| {name} | " + " | ".join(f"{a:.1f} / {f:.1f}" for a, f in means.values()) + " |", flush=True)
    return means


def halved(store: Store, seed: int) -> tuple[Array, Array, float, NDArray[np.bool_]]:
    random = np.random.default_rng(seed)
    keep = random.permutation(len(store.text))[: max(2, len(store.text) // 2)]
    some = random.permutation(len(store.labels))[:MOST]
    return store.features[some, 0], store.text[keep], store.logit_scale, np.isin(store.labels[some], keep)


def mixed(store: Store, other: Store, seed: int) -> tuple[Array, Array, float, NDArray[np.bool_]]:
    random = np.random.default_rng(seed)
    own, foreign = (random.permutation(len(s.labels))[:most] for s, most in ((store, MOST), (other, MOST // 2)))
    features = np.concatenate([store.features[own, 0], other.features[foreign, 0]])
    return features, store.text, store.logit_scale, np.arange(len(features)) < len(own)


def main(folder: Path, seeds: int) -> None:
    load_stores(folder, [name for pair in MIXTURES for name in pair])  # all of them are needed
    stores = {store.name: store for store in load_stores(folder)}
    print(
        "| known + unknown | "
        + " | ".join(scores(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), 1.0))
        + " |"
    )
    print("|---|---|---|---|---|")
    rows = [row(f"{a} + {b}", [mixed(stores[a], stores[b], seed) for seed in range(seeds)]) for a, b in MIXTURES]
    rows += [row(f"half of {name}", [halved(store, seed) for seed in range(seeds)]) for name, store in stores.items()]
    means = {score: np.mean([r[score] for r in rows], axis=0) for score in rows[0]}
    print("| **mean** | " + " | ".join(f"{a:.1f} / {f:.1f}" for a, f in means.values()) + " |")


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, whole("SEEDS"))
