"""Accuracy against the cost of adapting: the paper's first figure."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import title_of, weights_title
from trimtab.study.plots.chosen import by_method, mean_over_datasets, orders_title, records_for
from trimtab.study.plots.style import axes_for, entitle, look_of, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 80  # letters in a line of the note


def plot_cost(
    results: Results, *, weights: str = "fixed", dataset: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Mean accuracy over data sets against GFLOPs per image; a marker's area grows with the images per second."""
    chosen = records_for(results, weights=weights, dataset=dataset)
    datasets = sorted({record.about.dataset for record in chosen})
    ax = axes_for(ax, 6.4, 3.9)
    drawn = 0
    for (method, variant), records in by_method(chosen).items():
        counted = [r.cost.gflops_per_image for r in records if r.cost and r.cost.gflops_per_image is not None]
        if not counted:
            continue
        speed = float(np.mean([r.cost.images_per_second for r in records if r.cost]))
        color, marker, _ = look_of(method)
        place = (1000 * float(np.mean(counted)), mean_over_datasets(records))
        own = len({record.about.dataset for record in records})
        fewer = f" ({own} of {len(datasets)} sets)" if own < len(datasets) else ""
        label = f"{title_of(method, variant)}, {speed:,.0f}/s{fewer}"
        ax.scatter(
            *place, _area(speed), color=color, marker=marker, edgecolor="white", linewidth=0.8, zorder=3, label=label
        )
        drawn += 1
    if not drawn:
        raise TrimtabError("None of these methods' operations are counted, so there is no cost to draw.")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.15, y=0.15)
    ax.set_xlabel("adaptation: MFLOPs per image, counted by formula")
    ax.set_ylabel("accuracy (%)" if len(datasets) == 1 else "mean accuracy (%)")
    where = datasets[0] if len(datasets) == 1 else f"{len(datasets)} data sets"
    names = "" if len(datasets) == 1 else f"mean over {', '.join(datasets)}; "
    note = textwrap.fill(f"{names}{orders_title(chosen)}", LINE, break_on_hyphens=False)
    entitle(ax, f"{where}: accuracy against cost ({weights_title(weights)})", note)
    small_legend(ax, title="area: images per second", markerscale=0.7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def _area(images_per_second: float) -> float:
    """Points squared; logarithmic, for speeds differ by orders of magnitude."""
    return float(np.clip(30 * np.log10(max(images_per_second, 1.0)) ** 1.3, 15, 300))
