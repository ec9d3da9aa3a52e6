"""Can anything label-free see where adapting hurts? A classifier that was told the labels tries: an ORACLE.

    python -m benchmarks.guard_study.visible FOLDER METHOD SEEDS [STORE ...]

Streams in runs (sorted by class, Dirichlet) are cut into windows of 100 images. Of each, thirteen figures are taken
that need no label (how often the text and the method name their favorites, how sure they are, what they usually name,
which of the two favorites the sum of the text's log-probabilities prefers, ...). Gradient boosting learns from the
LABELS of all other stores which windows fall below zero-shot, and ranks those of the store left out. AUROC 0.5 is
chance. Windows that differ by less than two images are left out.

Then the twins: of each store the two classes whose windows look most alike to the text, one right and one wrong.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.command_line import FOLDER, STORES, method_name, run_study, whole
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.guard_study.windows import played
from trimtab import Guard, Task, make_method
from trimtab.engine.equations import softmax
from trimtab.errors import TrimtabError

WINDOW, AFTER, ORDERS = 100, 200, ("class-sorted", "dirichlet")
CONFIDENCE = 0.4  # the text's mean confidence, to which its scale is set


def tempered(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """The text's probabilities (n, C) at the scale where it is as sure as a stream makes it."""
    low, high = 0.0, 12.0
    for _ in range(20):
        middle = (low + high) / 2
        sure = softmax(np.float32(np.exp(middle)) * cosines).max(axis=1).mean()
        low, high = (middle, high) if sure < CONFIDENCE else (low, middle)
    return softmax(np.float32(np.exp(low)) * cosines)


def figures(
    text: NDArray[np.float32], answers: NDArray[np.float32], usual: NDArray[np.float64], runs: float
) -> list[float]:
    """Of a window, from what the text and the method say of its images (n, C), and what the text named before (C,)."""
    named, given = text.argmax(axis=1), answers.argmax(axis=1)
    by_text, by_method = (np.bincount(each, minlength=text.shape[1]) / len(each) for each in (named, given))
    favorite, adapted = int(by_text.argmax()), int(by_method.argmax())
    ordered, logs = np.sort(text, axis=1), np.log(np.maximum(text, 1e-6)).mean(axis=0)
    return [
        by_text.max(),
        by_method.max(),
        float(favorite == adapted),
        float((named != given).mean()),
        -float((by_text * np.log(by_text + 1e-12)).sum()),
        -float((by_method * np.log(by_method + 1e-12)).sum()),
        float(text.max(axis=1).mean()),
        float((ordered[:, -1] - ordered[:, -2]).mean()),
        float(answers.max(axis=1).mean()),
        usual[favorite],
        by_text.max() - usual[favorite],
        float(logs[adapted] - logs[favorite]),
        runs,
    ]


def windows(store: Store, method: str, seeds: int) -> tuple[list[list[float]], list[bool]]:
    """Of every window of a store: its figures, and whether it falls below zero-shot."""
    seen, harmful = [], []
    for order, seed in ((order, seed) for order in ORDERS for seed in range(seeds)):
        features, labels, prototypes = played(store, order, seed)
        stream = make_method(method).start(
            Task([str(c) for c in range(len(prototypes))], prototypes, store.logit_scale), Guard()
        )
        text = tempered(features @ prototypes.T)
        for first in range(0, len(labels) - WINDOW + 1, WINDOW):
            rows = slice(first, first + WINDOW)
            answers = stream.run(features[rows], keep_parts=False).probabilities
            named, truth = text.argmax(axis=1), labels[rows]
            gain = int((answers.argmax(axis=1) == truth).sum() - (named[rows] == truth).sum())
            if first >= AFTER and abs(gain) >= 2:
                usual = np.bincount(named[:first], minlength=len(prototypes)) / first
                seen.append(figures(text[rows], answers, usual, stream.health().runs))
                harmful.append(gain < 0)
    return seen, harmful


def twins(store: Store) -> str:
    """Two classes of a store: for both the text mostly names the same one, which is right for one of them."""
    named = (store.features[:, 0] @ store.text.T).argmax(axis=1)
    shares = np.stack(
        [np.bincount(named[store.labels == c], minlength=len(store.text)) for c in range(len(store.text))]
    )
    shares = shares / shares.sum(axis=1, keepdims=True)
    favorites = shares.argmax(axis=1)
    pairs = [(c, f) for c, f in enumerate(favorites) if c != f and favorites[f] == f]
    if not pairs:
        return "none"
    wrong, right = min(pairs, key=lambda pair: abs(shares[pair[0], pair[1]] - shares[pair[1], pair[1]]))
    return f"named {right}: {shares[right, right]:.0%} of class {right}, {shares[wrong, right]:.0%} of class {wrong}"


def main(folder: Path, method: str, seeds: int, wanted: list[str]) -> None:
    stores = list(load_stores(folder, wanted))
    if len(stores) < 2:
        raise TrimtabError(f"The oracle learns from other stores than the one it is asked about; give two of {folder}.")
    found = [windows(store, method, seeds) for store in stores]
    print("| store | windows | below zero-shot | AUROC of the oracle, store left out | twins |\n|---|---|---|---|---|")
    for left_out, (store, (seen, harmful)) in enumerate(zip(stores, found, strict=True)):
        others = [each for k, each in enumerate(found) if k != left_out]
        model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
        model.fit(np.concatenate([s for s, _ in others if s]), np.concatenate([h for _, h in others if h]))
        score = "-"
        if 0 < sum(harmful) < len(harmful):
            score = f"{roc_auc_score(harmful, model.predict_proba(np.array(seen))[:, 1]):.2f}"
        print(f"| {store.name} | {len(harmful)} | {sum(harmful)} | {score} | {twins(store)} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, method_name(), whole("SEEDS"), STORES)
