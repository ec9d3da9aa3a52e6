"""Which classes gain and which lose."""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import BASELINE
from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.metrics import Floats
from trimtab.study.plots.chosen import by_method, only_dataset, orders_title, records_for
from trimtab.study.plots.style import BLUE, VERMILLION, axes_for, entitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 30  # more cannot be read: the largest gains and losses are drawn


def plot_per_class(
    results: Results,
    *,
    method: str = "mcp",
    weights: str = "fixed",
    dataset: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The change of each class's recall over zero-shot, in points, averaged over orders."""
    name = only_dataset(results, dataset)
    rows = by_method(records_for(results, weights=weights, dataset=name))
    if (method, "") not in rows or (BASELINE, "") not in rows:
        raise TrimtabError(f"The results hold no finished runs of {method} and zero-shot on {name}.")
    records, baseline = rows[method, ""], rows[BASELINE, ""]
    change = 100 * (_recall(records) - _recall(baseline))
    places = np.flatnonzero(np.isfinite(change))
    places = places[np.argsort(change[places], kind="stable")]
    shown = places if len(places) <= MOST_BARS else np.r_[places[: MOST_BARS // 2], places[-MOST_BARS // 2 :]]
    ax = axes_for(ax, 5.2, 1.2 + 0.2 * len(shown))
    ax.barh(range(len(shown)), change[shown], color=[BLUE if value >= 0 else VERMILLION for value in change[shown]])
    for height, place in enumerate(shown):
        value = change[place]
        ax.annotate(
            f"{value:+.1f}",
            (value, height),
            (3 if value >= 0 else -3, 0),
            textcoords="offset points",
            va="center",
            ha="left" if value >= 0 else "right",
            fontsize=7,
        )
    names = records[0].about.class_names
    ax.set_yticks(range(len(shown)), [names[place] for place in shown], fontsize=8)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.margins(x=0.18)
    ax.set_ylim(-0.8, len(shown) - 0.2)
    ax.set_xlabel("change of recall over zero-shot (points)")
    left_out = f"; {len(places) - len(shown)} classes between these are left out" if len(shown) < len(places) else ""
    title = f"{name}: {title_of(method)} by class ({weights_title(weights)})"
    entitle(ax, title, f"mean of {orders_title(records)}{left_out}")
    return ax


def _recall(records: list[Record]) -> Floats:
    """(C,): the mean over orders; a class without images stays NaN."""
    mean: Floats = np.array([record.recall for record in records], np.float64).mean(axis=0)
    return mean
