"""Compactness of a data set's classes against what caches gain on it: the paper's argument for its align cache."""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import BASELINE
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.metrics import Floats
from trimtab.study.plots.chosen import by_method, mean_over_datasets, records_for
from trimtab.study.plots.style import axes_for, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_compactness(
    results: Results,
    *,
    methods: tuple[str, ...] = ("tda", "mcp"),
    weights: str = "fixed",
    ax: "Axes | None" = None,
) -> "Axes":
    """One point per store and method: inverse mean distance to the class center against the gain over zero-shot.

    A line and Pearson's r with its p-value are drawn where there are at least three stores.
    """
    rows = by_method(records_for(results, weights=weights))
    baseline = {record.about.dataset: record for record in rows.get((BASELINE, ""), [])}
    if len(baseline) < 2:
        raise TrimtabError("The compactness figure needs at least two data sets in the results.")
    ax = axes_for(ax, 6.0, 4.0)
    highest: dict[str, tuple[float, float]] = {}  # where a data set's name goes: above its highest point
    for method in methods:
        records = [r for r in rows.get((method, ""), []) if r.about.dataset in baseline]
        if not records:
            continue
        names = sorted({record.about.dataset for record in records})
        compact = np.array([baseline[name].compactness for name in names], float)
        gains = np.array(
            [
                mean_over_datasets([r for r in records if r.about.dataset == name]) - 100 * baseline[name].accuracy
                for name in names
            ]
        )
        for name, place, gain in zip(names, compact, gains, strict=True):
            highest[name] = max(highest.get(name, (place, gain)), (place, gain))
        color, marker, _ = look_of(method)
        label = f"{title_of(method)}{_correlation(compact, gains)}"
        ax.scatter(compact, gains, color=color, marker=marker, s=40, zorder=3, label=label)
        if len(names) > 2:
            ends = np.array([compact.min(), compact.max()])
            ax.plot(ends, np.polyval(np.polyfit(compact, gains, 1), ends), color=color, linewidth=1)
    for name, (place, gain) in highest.items():
        ax.annotate(name, (place, gain), (3, 5), textcoords="offset points", fontsize=7, rotation=30)
    ax.margins(x=0.12, y=0.2)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xlabel("compactness: 1 / mean distance to the class center (from labels)")
    ax.set_ylabel("gain over zero-shot (points)")
    ax.set_title(f"Do compact classes gain more? ({weights_title(weights)})", fontsize="medium")
    small_legend(ax)
    return ax


def _correlation(x: Floats, y: Floats) -> str:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return ""
    from scipy.stats import pearsonr

    found = pearsonr(x, y)
    return f": r = {found.statistic:.2f}, p = {found.pvalue:.2g}, n = {len(x)}"
