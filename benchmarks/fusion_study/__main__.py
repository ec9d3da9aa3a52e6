"""Run the study:  python -m benchmarks.fusion_study FOLDER_OF_STORES RESULTS.jsonl  [store ...]

What each piece of the rule is worth, candidate by candidate. One line per stream goes to the results; lines that are
there already are not computed again. Tables are then made by  python -m benchmarks.fusion_study.tables RESULTS.jsonl
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, STORES, place, run_study
from benchmarks.fusion_study.candidates import ABLATIONS, CANDIDATES, Parts
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import Arranged, arranged, orders_of, parts_of
from trimtab.fusion import oracle_weights
from trimtab.methods.mcp import MCP

# The prototypes' strength: the middle of the authors' values for every set, or found from the stream.
STRENGTHS = {"paper": MCP.paper(), "matched": MCP()}


def study(store: Store, stream: Arranged) -> dict[str, float]:
    """Name of strength and candidate -> accuracy in percent on one stream."""
    found = {}
    for strength, method in STRENGTHS.items():
        parts = parts_of(store, stream, method)
        for name, fuse in (CANDIDATES | (ABLATIONS if strength == "matched" else {})).items():
            found[f"{strength}: {name}"] = stream.accuracy(fuse(parts))
        found[f"{strength}: oracle"] = _oracle(parts, stream.labels)
    return found


def _oracle(parts: Parts, labels: NDArray[np.int64], most: int = 24) -> float:
    """The accuracy of the weights that are best for the labels. Only classes that a part ranks high can win."""
    known = labels >= 0
    arrays = {name: part[known] for name, part in parts.items()}
    targets = labels[known]
    if arrays["text"].shape[1] > most:
        tops = [np.argpartition(-part, most // 3, axis=1)[:, : most // 3] for part in arrays.values()]
        chosen = np.concatenate(tops, axis=1)
        arrays = {name: np.take_along_axis(part, chosen, axis=1) for name, part in arrays.items()}
        targets = np.where((chosen == targets[:, None]).any(axis=1), (chosen == targets[:, None]).argmax(axis=1), -1)
    return 100 * oracle_weights(arrays, targets).accuracy


def main(folder: Path, results: Path, wanted: list[str]) -> None:
    done = set()
    if results.exists():
        done = {tuple(json.loads(line)["stream"]) for line in results.read_text().splitlines()}
    for store in load_stores(folder, wanted):
        for order, seed in orders_of(store):
            if (store.name, order, seed) in done:
                continue
            accuracies = study(store, arranged(store, order, seed))
            with results.open("a") as file:
                file.write(json.dumps({"stream": [store.name, order, seed], "accuracy": accuracies}) + "\n")
        print(store.name, file=sys.stderr)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, place("RESULTS.jsonl"), STORES)
