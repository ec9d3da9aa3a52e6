"""Accuracy along the stream: does a method get better as it sees more?"""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.plots.chosen import by_method, count_orders, only_dataset, orders_title, records_for
from trimtab.study.plots.style import axes_for, entitle, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETTLING = 20  # the first twentieth of a stream is noise: its lines may leave the figure
BAND_FROM = 10  # before a tenth of the stream the orders differ by which images came first, and by little else


def plot_along(
    results: Results,
    *,
    weights: str = "fixed",
    dataset: str | None = None,
    order: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Accuracy over the images seen so far: the mean over orders, and a band from the lowest order to the highest.

    The band begins after a tenth of the stream.
    """
    name = only_dataset(results, dataset)
    chosen = records_for(results, weights=weights, dataset=name, order=order)
    orders = count_orders(chosen)
    low, high = np.inf, -np.inf
    ax = axes_for(ax, 6.4, 3.9)
    for (method, variant), records in by_method(chosen).items():
        color, marker, line = look_of(method)
        seen = np.asarray(records[0].along["images"])
        curves = 100 * np.array([np.interp(seen, r.along["images"], r.along["accuracy"]) for r in records])
        mean = curves.mean(axis=0)
        fewer = f" ({len(records)} of {orders} orders)" if len(records) < orders else ""
        ax.plot(
            seen,
            mean,
            color=color,
            linestyle=line,
            linewidth=1.4,
            marker=marker,
            markersize=4,
            markevery=max(1, len(seen) // 10),
            label=title_of(method, variant) + fewer,
        )
        banded = slice(len(seen) // BAND_FROM, None)
        lowest, highest = curves[:, banded].min(axis=0), curves[:, banded].max(axis=0)
        if len(records) > 1:
            ax.fill_between(seen[banded], lowest, highest, color=color, alpha=0.12, linewidth=0)
        settled = mean[len(seen) // SETTLING :]
        low, high = min(low, settled.min(), lowest.min()), max(high, settled.max(), highest.max())
    if high > low:
        ax.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    ax.set_xlabel("images seen")
    ax.set_ylabel("accuracy so far (%)")
    note = f"mean of {orders_title(chosen)}; band: lowest to highest order, from a tenth of the stream on"
    entitle(
        ax,
        f"{name}: accuracy along the stream ({weights_title(weights)})",
        note if orders > 1 else orders_title(chosen),
    )
    small_legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
