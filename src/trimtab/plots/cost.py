"""Accuracy against the cost of adapting: the paper's first figure."""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.bench.results import Results
from trimtab.errors import TrimtabError
from trimtab.plots.chosen import by_method, mean_accuracy, records_for, weights_note
from trimtab.plots.style import axes_for, look_of, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cost(
    results: Results, *, weights: str = "fixed", dataset: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Mean accuracy over data sets against GFLOPs per image; a marker's area grows with the images per second."""
    rows = by_method(records_for(results, weights=weights, dataset=dataset))
    ax = axes_for(ax)
    drawn = 0
    for (method, variant), records in rows.items():
        counted = [r.cost.gflops_per_image for r in records if r.cost and r.cost.gflops_per_image is not None]
        if not counted:
            continue
        speed = float(np.mean([r.cost.images_per_second for r in records if r.cost]))
        colour, marker, _ = look_of(method)
        place = (1000 * float(np.mean(counted)), mean_accuracy(records))
        ax.scatter(*place, s=_area(speed), color=colour, marker=marker, edgecolor="white", linewidth=0.8, zorder=3)
        label = f"{title_of(method, variant)}\n{speed:,.0f}/s"
        ax.annotate(label, place, (8, 6), textcoords="offset points", fontsize=7, color="#333333")
        drawn += 1
    if not drawn:
        raise TrimtabError("None of these methods' operations are counted, so there is no cost to draw.")
    ax.set_xscale("log")
    ax.margins(x=0.25, y=0.2)
    ax.set_xlabel("adaptation cost: MFLOPs per image, counted by formula (log scale)")
    ax.set_ylabel("mean accuracy (%)")
    ax.set_title(f"Accuracy against cost ({weights_note(weights)}; area: images per second)", fontsize="medium")
    return ax


def _area(images_per_second: float) -> float:
    """Points squared; logarithmic, for speeds differ by orders of magnitude."""
    return float(np.clip(30 * np.log10(max(images_per_second, 1.0)) ** 1.3, 15, 300))
