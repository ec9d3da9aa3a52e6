"""The figure of docs/poisoning.md: what each attack leaves of the gain over zero-shot, means over stores.

    python -m benchmarks.guard_study.figure OUT FIGURE

OUT is the folder of benchmarks.guard_study.attacks; FIGURE an image file to be written.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.command_line import place, run_study
from benchmarks.guard_study.attacks import written_in

GRAY, BLUE = "#B0B0B0", "#0072B2"


def gains(folder: Path) -> dict[str, tuple[float, float]]:
    """Attack -> points above zero-shot without and with a guard, means over every store and method."""
    found: dict[str, dict[bool, list[float]]] = {}
    for file in written_in(folder):
        trials = json.loads(file.read_text())
        for outcome in trials["outcomes"]:
            both = found.setdefault(outcome["attack"], {False: [], True: []})
            both[outcome["guarded"]].append(outcome["accuracy"] - trials["zero_shot"])
    return {attack: (float(np.mean(both[False])), float(np.mean(both[True]))) for attack, both in found.items()}


def main(folder: Path, target: Path) -> None:
    found = gains(folder)
    figure, axes = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
    places = np.arange(len(found))
    axes.bar(places - 0.2, [bare for bare, _ in found.values()], 0.38, color=GRAY, label="as published")
    axes.bar(places + 0.2, [guarded for _, guarded in found.values()], 0.38, color=BLUE, label="with a guard")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(places, ["no attack" if attack == "clean" else attack for attack in found], rotation=20)
    axes.set_ylabel("points above zero-shot")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(target, dpi=150)


if __name__ == "__main__":
    run_study(main, __doc__, place("OUT"), place("FIGURE"))
