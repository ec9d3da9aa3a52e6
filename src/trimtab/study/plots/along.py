"""Accuracy along the stream: does a method get better as it sees more?"""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.plots.chosen import by_method, only_dataset, records_for
from trimtab.study.plots.style import axes_for, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETTLING = 20  # the first twentieth of a stream is noise: it may leave the figure


def plot_along(
    results: Results,
    *,
    weights: str = "fixed",
    dataset: str | None = None,
    order: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Accuracy over the images seen so far: the mean over orders, and a band from the lowest order to the highest."""
    name = only_dataset(results, dataset)
    low, high = np.inf, -np.inf
    ax = axes_for(ax, 6.0, 3.6)
    for (method, variant), records in by_method(
        records_for(results, weights=weights, dataset=name, order=order)
    ).items():
        color, marker, line = look_of(method)
        seen = np.asarray(records[0].along["images"])
        curves = 100 * np.array([np.interp(seen, r.along["images"], r.along["accuracy"]) for r in records])
        ax.plot(
            seen,
            curves.mean(axis=0),
            color=color,
            linestyle=line,
            linewidth=1.4,
            marker=marker,
            markersize=4,
            markevery=max(1, len(seen) // 10),
            label=title_of(method, variant),
        )
        ax.fill_between(seen, curves.min(axis=0), curves.max(axis=0), color=color, alpha=0.12, linewidth=0)
        settled = curves[:, len(seen) // SETTLING :]
        low, high = min(low, settled.min()), max(high, settled.max())
    if high > low:
        ax.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    ax.set_xlabel("images seen")
    ax.set_ylabel("accuracy so far (%)")
    ax.set_title(f"{name}: accuracy along the stream ({weights_title(weights)})", fontsize="medium")
    small_legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
