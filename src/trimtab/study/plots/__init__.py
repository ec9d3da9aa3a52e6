"""Figures from what a study has found. Each function draws into `ax` if one is given, and returns the axes."""

from trimtab.study.plots.ablation import plot_study
from trimtab.study.plots.along import plot_along
from trimtab.study.plots.calibration import plot_reliability
from trimtab.study.plots.classes import plot_per_class
from trimtab.study.plots.compact import plot_compactness
from trimtab.study.plots.cost import plot_cost
from trimtab.study.plots.features import plot_features
from trimtab.study.plots.style import as_bytes

__all__ = [
    "as_bytes",
    "plot_along",
    "plot_compactness",
    "plot_cost",
    "plot_features",
    "plot_per_class",
    "plot_reliability",
    "plot_study",
]
