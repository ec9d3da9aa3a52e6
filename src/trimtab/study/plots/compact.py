"""Compactness of a data set's classes against what caches gain on it: the paper's argument for its align cache."""

from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import BASELINE
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.metrics import Floats
from trimtab.study.plots.chosen import by_method, mean_over_datasets, orders_title, records_for
from trimtab.study.plots.style import GRAY, axes_for, entitle, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 5  # data sets for a line and a correlation: through three points almost any line goes
NAME_WIDTH = 0.055  # of the axes' width, that a slanted name takes


def plot_compactness(
    results: Results,
    *,
    methods: tuple[str, ...] = ("tda", "mcp"),
    weights: str = "fixed",
    dataset: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """One point per data set and method: inverse mean distance to the class center against the gain over zero-shot.

    A line and Pearson's r with its p-value are drawn where there are at least five data sets. `dataset` may name those
    to compare, with commas between them.
    """
    chosen = records_for(results, weights=weights, dataset=dataset)
    rows = by_method(chosen)
    baseline = {record.about.dataset: record for record in rows.get((BASELINE, ""), [])}
    if len(baseline) < 2:
        raise TrimtabError(
            "The compactness figure compares data sets and needs zero-shot runs on at least two; name several with "
            "--dataset a,b,... or leave it out."
        )
    ax = axes_for(ax, 6.6, 4.2)
    highest: dict[str, tuple[float, float]] = {}  # where the line to a data set's name begins: at its highest point
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
        label = f"{title_of(method)}: {_correlation(compact, gains)}"
        ax.scatter(compact, gains, color=color, marker=marker, s=40, zorder=3, label=label)
        if len(names) >= FEWEST:
            ends = np.array([compact.min(), compact.max()])
            ax.plot(ends, np.polyval(np.polyfit(compact, gains, 1), ends), color=color, linewidth=1)
    if not highest:
        raise TrimtabError(f"The compactness figure needs runs of {' or '.join(methods)}.")
    ax.margins(x=0.12, y=0.12)
    ax.axhline(0, color="black", linewidth=0.8)
    _name_points(ax, highest)
    ax.set_xlabel("compactness: 1 / mean distance to the class center (from labels)")
    ax.set_ylabel("gain over zero-shot (points)")
    fewer = f"; a line needs {FEWEST} data sets" if len(baseline) < FEWEST else ""
    entitle(
        ax,
        f"Do compact classes gain more? ({weights_title(weights)})",
        f"{len(baseline)} data sets, mean of {orders_title(chosen)} each{fewer}",
    )
    small_legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(methods))
    return ax


def _name_points(ax: "Axes", highest: dict[str, tuple[float, float]]) -> None:
    """Names in a row above the points, moved apart where points are close, each with a thin line to its point."""
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + 0.4 * (top - bottom))
    left, right = ax.get_xlim()
    last = -np.inf
    for name, (place, gain) in sorted(highest.items(), key=lambda item: item[1]):
        last = max(place, last + NAME_WIDTH * (right - left))
        ax.annotate(
            name,
            (place, gain),
            (last, top + 0.02 * (top - bottom)),
            fontsize=7,
            rotation=35,
            rotation_mode="anchor",
            arrowprops={"arrowstyle": "-", "color": GRAY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4},
        )


def _correlation(x: Floats, y: Floats) -> str:
    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return f"n = {len(x)}"
    from scipy.stats import pearsonr

    found = pearsonr(x, y)
    return f"r = {found.statistic:.2f}, p = {found.pvalue:.2g}, n = {len(x)}"
