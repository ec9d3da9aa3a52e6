"""The strength of visual prototypes: found from the stream, against alpha and beta searched per set ON THE LABELS.

    python -m benchmarks.fusion_study.strengths FOLDER_OF_STORES [store ...]

prints the accuracy of MCP's prototype part on one shuffled stream per store.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

from benchmarks.command_line import FOLDER, STORES, run_study
from benchmarks.fusion_study.stores import load_stores
from benchmarks.fusion_study.streams import arranged, parts_of
from trimtab.methods.mcp import MCP

# The ends and the middle of the authors' values over their 15 sets, and what they give for the sets among our stores.
ALPHAS, BETAS = (1.0, 3.0, 5.5), (1.0, 3.0, 5.0, 8.0)
AUTHORS = {
    "clip_b32_caltech64": (5.0, 5.0),
    "clip_b32_cars_val": (3.0, 4.0),
    "clip_b32_imagenet_pool": (5.5, 8.0),
}


def main(folder: Path, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    print("| store | 3 and 8 | authors, for the set | oracle (labels), their range | auto |\n|---|---|---|---|---|")
    for store in stores:
        stream = arranged(store, "shuffled", 0)

        def accuracy(method: MCP) -> float:
            return stream.accuracy(parts_of(store, stream, method)["prototype"])  # noqa: B023

        def affinity(alpha: float, beta: float) -> float:
            return accuracy(replace(MCP.paper(), positive_alpha=alpha, positive_beta=beta))

        grid = {pair: affinity(*pair) for pair in product(ALPHAS, BETAS)}
        given = AUTHORS.get(store.name)
        authors = f"{affinity(*given):.1f}" if given else ""
        best, auto = max(grid.values()), accuracy(MCP())
        print(f"| {store.name} | {grid[3.0, 8.0]:.1f} | {authors} | {best:.1f} | {auto:.1f} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, STORES)
