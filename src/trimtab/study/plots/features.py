"""The feature space in two dimensions: images, what the caches hold of them, and the prototypes."""

from typing import TYPE_CHECKING

from trimtab.study.bench.rows import title_of
from trimtab.study.feature_map import FeatureMap
from trimtab.study.plots.style import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    axes_for,
    entitle,
    small_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE)  # one per class
AXES = {"pca": "principal components", "tsne": "t-SNE"}


def plot_features(found: FeatureMap, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the chosen classes with cache members and text and visual prototypes marked.

    A dot's color is the image's true label (gray: a class that is not shown), a mark's color the class whose cache
    holds it: where they differ, the cache is wrong.
    """
    ax = axes_for(ax, 6.4, 4.6)
    for label, name in enumerate(found.class_names):
        dots = found.images[found.labels == label]
        ax.scatter(dots[:, 0], dots[:, 1], 5, color=COLORS[label], alpha=0.35, linewidth=0)
        ax.scatter([], [], 25, color=COLORS[label], label=name)
    strangers = found.images[found.labels < 0]
    if len(strangers):
        ax.scatter(strangers[:, 0], strangers[:, 1], 8, color=GRAY, linewidth=0)
        ax.scatter([], [], 25, color=GRAY, label="a class not shown")
    for member in found.members:
        color = COLORS[member.owner]
        ax.scatter(*member.place, 34, marker=_mark(member.section), facecolor="none", edgecolor=color, linewidth=1.2)
    for prototypes, mark, size in ((found.text, "*", 110), (found.visual, "D", 50)):
        for label, (x, y) in enumerate(prototypes):
            ax.scatter(x, y, size, marker=mark, color=COLORS[label], edgecolor=BLACK, linewidth=0.8, zorder=4)
    sections = dict.fromkeys(member.section for member in found.members)
    marks = [(_mark(section), f"in the {section} cache") for section in sections]
    for mark, name in [*marks, ("*", "text prototype"), ("D", "visual prototype")]:
        ax.scatter([], [], marker=mark, facecolor="none", edgecolor=BLACK, label=name)
    ax.set(xticks=[], yticks=[], xlabel=f"{AXES[found.projection]}; texts shifted onto the images' mean", ylabel="")
    entitle(ax, f"{found.dataset}: what {title_of(found.method)} keeps (dots: true label)", _shown(found))
    small_legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def _shown(found: FeatureMap) -> str:
    """How much of the data set the figure shows."""
    chosen, images = len(found.class_names), int((found.labels >= 0).sum())
    return f"{_part(chosen, found.all_classes)} classes, {_part(images, found.all_images)} of their images"


def _part(shown: int, whole: int) -> str:
    return f"all {whole:,}" if shown == whole else f"{shown:,} of {whole:,}"


def _mark(section: str) -> str:
    return {"align": "s", "negative": "X"}.get(section, "o")
