"""Reliability diagrams: when a method says 80 %, is it right 80 % of the time?"""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.metrics import Floats
from trimtab.study.plots.chosen import by_method, only_dataset, orders_title, records_for
from trimtab.study.plots.style import axes_for, entitle, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 10  # images of one order in a bin that is drawn: fewer say nothing
AREA = 110.0  # points squared of a bin that holds every image


def plot_reliability(
    results: Results,
    *,
    weights: str = "fixed",
    dataset: str | None = None,
    methods: tuple[str, ...] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Accuracy against confidence, all orders together; above the diagonal a method is too modest, below too sure.

    A marker's area and opacity grow with the images in its bin.
    """
    from matplotlib.colors import to_rgb

    name = only_dataset(results, dataset)
    chosen = records_for(results, weights=weights, dataset=name)
    ax = axes_for(ax, 6.6, 4.6)
    ax.plot([0, 100], [0, 100], color="black", linewidth=0.8)
    for (method, variant), records in by_method(chosen).items():
        if methods is not None and method not in methods:
            continue
        counts = np.array([record.reliability["count"] for record in records])
        total = np.maximum(counts.sum(axis=0), 1)
        confidence = (counts * np.array([r.reliability["confidence"] for r in records])).sum(axis=0) / total
        accuracy = (counts * np.array([r.reliability["accuracy"] for r in records])).sum(axis=0) / total
        drawn = counts.mean(axis=0) >= FEWEST
        x, y, share = 100 * confidence[drawn], 100 * accuracy[drawn], (counts.sum(axis=0) / counts.sum())[drawn]
        color, marker, line = look_of(method)
        ax.plot(x, y, color=color, linestyle=line, linewidth=0.9, alpha=0.4)
        # Not clipped: a bin at 100 % lies on the edge, and half a marker would be another shape.
        colors = [(*to_rgb(color), strength) for strength in _strength(share).tolist()]
        ax.scatter(x, y, _area(share), facecolor=colors, marker=marker, linewidth=0, clip_on=False)
        error = 100 * float(np.mean([record.scores["ece"] for record in records]))
        label = f"{title_of(method, variant)} (ECE {error:.1f})"
        ax.plot([], [], color=color, marker=marker, markersize=4.5, linestyle=line, linewidth=0.9, label=label)
    ax.set(xlim=(0, 100), ylim=(0, 100), xlabel="confidence (%)", ylabel="accuracy (%)", aspect="equal")
    entitle(
        ax,
        f"{name}: reliability ({weights_title(weights)})",
        f"{orders_title(chosen)} together; a marker grows with the images in its bin",
        f"bins with fewer than {FEWEST} images per order are left out",
    )
    small_legend(ax, loc="center left", bbox_to_anchor=(1.03, 0.5))
    return ax


def _area(share: Floats) -> Floats:
    """Points squared; by the root of a bin's share of the images, for shares differ by orders of magnitude."""
    return AREA * np.sqrt(share)


def _strength(share: Floats) -> Floats:
    """How opaque a bin is drawn: fully from a tenth of the images on."""
    return np.clip(0.3 + 7 * share, 0.3, 1.0)
