"""Figures from records. Each function draws into `ax` if one is given, and returns the axes."""

from trimtab.plots.along import plot_along
from trimtab.plots.calibration import plot_reliability
from trimtab.plots.classes import plot_per_class
from trimtab.plots.compact import plot_compactness
from trimtab.plots.cost import plot_cost
from trimtab.plots.features import plot_features

__all__ = ["plot_along", "plot_compactness", "plot_cost", "plot_features", "plot_per_class", "plot_reliability"]
