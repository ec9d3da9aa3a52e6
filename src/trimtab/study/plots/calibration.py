"""Reliability diagrams: when a method says 80 %, is it right 80 % of the time?"""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.plots.chosen import by_method, only_dataset, records_for
from trimtab.study.plots.style import axes_for, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 10  # images in a bin that is drawn: fewer say nothing


def plot_reliability(
    results: Results,
    *,
    weights: str = "fixed",
    dataset: str | None = None,
    methods: tuple[str, ...] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Accuracy against confidence, all orders together; above the diagonal a method is too modest, below too sure."""
    name = only_dataset(results, dataset)
    ax = axes_for(ax, 4.8, 4.2)
    ax.plot([0, 100], [0, 100], color="black", linewidth=0.8)
    for (method, variant), records in by_method(records_for(results, weights=weights, dataset=name)).items():
        if methods is not None and method not in methods:
            continue
        count = np.array([record.reliability["count"] for record in records])
        total = np.maximum(count.sum(axis=0), 1)
        confidence = (count * np.array([r.reliability["confidence"] for r in records])).sum(axis=0) / total
        accuracy = (count * np.array([r.reliability["accuracy"] for r in records])).sum(axis=0) / total
        drawn = count.sum(axis=0) >= FEWEST
        color, marker, line = look_of(method)
        error = 100 * float(np.mean([record.scores["ece"] for record in records]))
        label = f"{title_of(method, variant)} (ECE {error:.1f})"
        ax.plot(
            100 * confidence[drawn],
            100 * accuracy[drawn],
            color=color,
            marker=marker,
            markersize=3.5,
            linestyle=line,
            linewidth=1.2,
            label=label,
        )
    ax.set(xlim=(0, 100), ylim=(0, 100), xlabel="confidence (%)", ylabel="accuracy (%)")
    ax.set_title(f"{name}: reliability ({weights_title(weights)})", fontsize="medium")
    small_legend(ax, loc="upper left")
    return ax
