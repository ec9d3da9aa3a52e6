"""What images of one class tell together, by the text alone: why runs are worth listening to.

    python -m benchmarks.groups_study FOLDER SIZES [STORE ...]

FOLDER as in benchmarks.method_study; SIZES are numbers of images with commas between. Images are put into groups of one
class by their labels, so this is an ORACLE's figure: a stream has to find out for itself where a run begins. A group is
named by what the text says of its images, on average, over what it says of all images (fusion/context.py). Prints
Markdown: the percentage of the images that the text names rightly, and of those whose group is.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, STORES, run_study, wholes
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import arranged, parts_of
from trimtab.fusion.product import POWER
from trimtab.methods.mcp import MCP


def named_rightly(said: NDArray[np.floating], labels: NDArray[np.int64], size: int) -> float:
    """Percent of the images in groups of so many, or of fewer where no more are left, that are named rightly."""
    usual, right = said.mean(axis=0), 0
    for label in np.unique(labels):
        images = said[labels == label]
        groups = np.split(images, range(size, len(images), size))
        right += sum(len(group) for group in groups if (group.mean(axis=0) / usual).argmax() == label)
    return 100 * right / len(labels)


def row(store: Store, sizes: list[int]) -> list[float]:
    """Zero-shot top-1, and that of groups of each size."""
    stream = arranged(store, "shuffled", 0)
    text = parts_of(store, stream, MCP())["text"].astype(np.float64)
    said = text**POWER / (text**POWER).sum(axis=1, keepdims=True)
    zero_shot = stream.accuracy(store.features[stream.indices][:, 0] @ stream.text.T)
    return [zero_shot, *(named_rightly(said, stream.labels, size) for size in sizes)]


def main(folder: Path, sizes: list[int], wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print(f"| store | zero-shot | {' | '.join(f'{size} (oracle)' for size in sizes)} |\n|---|---|{'---|' * len(sizes)}")
    found = []
    for store in stores:
        found.append(row(store, sizes))
        print(f"| {store.name} | " + " | ".join(f"{cell:.1f}" for cell in found[-1]) + " |", flush=True)
    print("| **mean** | " + " | ".join(f"{cell:.1f}" for cell in np.mean(found, axis=0)) + " |")


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, wholes("SIZES"), STORES)
