"""What a few human answers are worth: some flips of a stream's first half are corrected, and the second half is scored.

    python -m benchmarks.guard_study.corrections FOLDER METHOD SEEDS [STORE ...]

Prints Markdown: top-1 in percent on the second half of at most 1,600 images after 0, 10 and 50 corrections. A flip is
an image whose answer differs from zero-shot; which of them are asked about is drawn at random. Labels are used only
for the corrections.
"""

from pathlib import Path

import numpy as np

from benchmarks.command_line import FOLDER, STORES, method_name, run_study, whole
from benchmarks.fusion_study.stores import Store, load_stores
from trimtab import Guard, Task, make_method

MOST, COUNTS = 1600, (0, 10, 50)


def accuracies(store: Store, method: str, seed: int) -> list[float]:
    """Top-1 of zero-shot, and of the stream after each number of corrections."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(store.labels))[:MOST]
    features, labels, half = store.features[order][:, 0], store.labels[order], len(order) // 2
    task = Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale)
    first = make_method(method).start(task, Guard())
    answers = first.run(features[:half], keep_parts=False).labels
    text = (features @ store.text.T).argmax(axis=1)
    flips = random.permutation(np.flatnonzero(answers != text[:half]))
    found = [100 * float((text[half:] == labels[half:]).mean())]
    for count in COUNTS:
        stream = first.copy()
        for position in flips[:count]:
            stream.correct(int(position), int(labels[position]), features[position])
        found.append(100 * float((stream.run(features[half:], keep_parts=False).labels == labels[half:]).mean()))
    return found


def main(folder: Path, method: str, seeds: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print(f"| store | zero-shot | {' | '.join(f'{count} corrections' for count in COUNTS)} |\n|---|---|---|---|---|")
    for store in stores:
        cells = np.mean([accuracies(store, method, seed) for seed in range(seeds)], axis=0)
        print(f"| {store.name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, method_name(), whole("SEEDS"), STORES)
