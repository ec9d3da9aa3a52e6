"""A study's figure: dots for settings without an order, a line along one axis, a heat map over two."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.ablations.findings import Findings, Outcome
from trimtab.study.ablations.studies import Study
from trimtab.study.plots.chosen import count_orders, orders_title
from trimtab.study.plots.style import BLUE, GRAY, VERMILLION, axes_for, entitle, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 16  # from this ratio of the largest setting to the smallest, the axis is logarithmic


def plot_study(found: Findings, *, ax: "Axes | None" = None) -> "Axes":
    """Draw what a study came to, beside zero-shot."""
    study = found.ablation.study
    good = [outcome for outcome in found.outcomes if outcome.mean is not None]
    if not good:
        raise TrimtabError("No setting of the study has finished, so there is nothing to draw.")
    draw = {0: _dots, 1: _line, 2: _heat}[len(study.axes)]
    ax = draw(study, good, found.zero_shot_accuracy, ax)
    around = " ± standard deviation" if len(study.axes) < 2 and len(found.zero_shot) > 1 else ""
    reference = "; orange: reference" if any(outcome.point.reference for outcome in good) else ""
    records = good[0].records
    orders = f"{count_orders(records)} orders of each kind" if "order" in study.axes else orders_title(records)
    entitle(
        ax,
        study.title,
        f"{found.where}; zero-shot {found.zero_shot_accuracy:.2f}",
        f"mean{around} of {orders}{reference}",
    )
    return ax


def _dots(_study: Study, found: Sequence[Outcome], zero_shot: float, ax: "Axes | None") -> "Axes":
    ax = axes_for(ax, 5.6, 1.5 + 0.36 * len(found))
    for place, outcome in enumerate(found):
        mean, color = float(outcome.mean or 0), VERMILLION if outcome.point.reference else BLUE
        ax.errorbar(mean, place, xerr=outcome.spread, color=color, marker="o", markersize=6, capsize=3)
        # In a column of their own: beside its dot a figure could lie on the dashed line.
        ax.annotate(
            f"{mean:.2f}",
            (1, place),
            (6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=color,
            annotation_clip=False,
        )
    ax.axvline(zero_shot, color="black", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(found)), [outcome.point.label for outcome in found])
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.margins(x=0.1)
    ax.set_xlabel("accuracy (%); dashed: zero-shot")
    return ax


def _line(study: Study, found: Sequence[Outcome], zero_shot: float, ax: "Axes | None") -> "Axes":
    ax = axes_for(ax)
    ordered = sorted(found, key=lambda outcome: outcome.point.at)
    x = [float(outcome.point.at[0]) for outcome in ordered]
    y = [float(outcome.mean or 0) for outcome in ordered]
    ax.errorbar(x, y, yerr=[outcome.spread for outcome in ordered], color=BLUE, marker="o", capsize=3, linewidth=1.4)
    for outcome in ordered:
        if outcome.point.reference:
            place = (float(outcome.point.at[0]), float(outcome.mean or 0))
            ax.scatter(*place, 90, facecolor="none", edgecolor=VERMILLION, linewidth=1.6, zorder=4, label="reference")
    ax.axhline(zero_shot, color="black", linestyle="--", linewidth=1, label=f"zero-shot {zero_shot:.2f}")
    if x[0] > 0 and x[-1] / x[0] >= WIDE:
        ax.set_xscale("log", base=2)
    ax.set_xticks(x, [f"{value:g}" for value in x])  # only what was run: there is no run of one and a half views
    ax.set_xticks([], minor=True)
    ax.set_xlabel(study.axes[0])
    ax.set_ylabel("accuracy (%)")
    small_legend(ax)
    return ax


def _heat(study: Study, found: Sequence[Outcome], _zero_shot: float, ax: "Axes | None") -> "Axes":
    rows = list(dict.fromkeys(outcome.point.at[0] for outcome in found))
    columns = list(dict.fromkeys(outcome.point.at[1] for outcome in found))
    values = np.full((len(rows), len(columns)), np.nan)
    ax = axes_for(ax, 2.4 + 0.9 * len(columns), 1.7 + 0.45 * len(rows))
    ax.grid(visible=False)
    for outcome in found:
        row, column = rows.index(outcome.point.at[0]), columns.index(outcome.point.at[1])
        values[row, column] = outcome.mean
        if outcome.point.reference:
            _outline(ax, row, column)
    image = ax.imshow(values, cmap="cividis", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "black" if value > middle else "white"
            ax.annotate(f"{value:.2f}", (column, row), ha="center", va="center", fontsize=8, color=color)
    ax.set_xticks(range(len(columns)), [str(name) for name in columns])
    ax.set_yticks(range(len(rows)), [str(name) for name in rows])
    ax.set_xlabel(study.axes[1])
    ax.set_ylabel("" if isinstance(rows[0], str) else study.axes[0])
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.colorbar(image, ax=ax, label="accuracy (%)").outline.set_edgecolor(GRAY)
    return ax


def _outline(ax: "Axes", row: int, column: int) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, fill=False, edgecolor=VERMILLION, linewidth=2, zorder=3)
    ax.add_patch(box)
