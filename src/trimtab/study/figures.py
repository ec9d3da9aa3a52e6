"""The figures by name, for the command line and for the report's page."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods import make_method
from trimtab.study import plots
from trimtab.study.bench.results import Results
from trimtab.study.feature_map import map_features
from trimtab.study.plots.chosen import only_dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class FigureKind:
    """What a figure shows, whether it is about one data set or about all, and whether records are not enough for it."""

    about: str
    one_dataset: bool
    runs_again: bool = False


FIGURES = {
    "cost": FigureKind("accuracy against adaptation cost", one_dataset=False),
    "compactness": FigureKind("compactness of each set against what caches gain", one_dataset=False),
    "along": FigureKind("accuracy along the stream", one_dataset=True),
    "reliability": FigureKind("confidence against accuracy", one_dataset=True),
    "per-class": FigureKind("gains and losses by class", one_dataset=True),
    "features": FigureKind("the feature space with cache members and prototypes", one_dataset=True, runs_again=True),
}


def check_figure(name: str) -> None:
    """Refuse a name that no figure has."""
    if name not in FIGURES:
        raise TrimtabError(f"There is no figure {name!r}; choose one of {', '.join(FIGURES)}.")


def draw(name: str, results: Results, *, dataset: str | None = None, weights: str = "fixed", **options: Any) -> "Axes":
    """Draw a figure by its name; `options` go to its function."""
    check_figure(name)
    match name:
        case "cost":
            return plots.plot_cost(results, weights=weights, dataset=dataset, **options)
        case "compactness":
            return plots.plot_compactness(results, weights=weights, dataset=dataset, **options)
        case "along":
            return plots.plot_along(results, weights=weights, dataset=dataset, **options)
        case "reliability":
            return plots.plot_reliability(results, weights=weights, dataset=dataset, **options)
        case "per-class":
            return plots.plot_per_class(results, weights=weights, dataset=dataset, **options)
        case _:
            return _features(results, dataset, **options)


def _features(
    results: Results, dataset: str | None, *, method: str = "mcp", ax: "Axes | None" = None, **options: Any
) -> "Axes":
    """The features themselves are not in a record: the store is opened again, and the recorded run repeated."""
    name = only_dataset(results, dataset)
    found = [r.about for r in results.records if r.ok and r.about.dataset == name and r.about.method == method]
    if not found:
        raise TrimtabError(f"The results hold no finished run of {method} on {name}.")
    about = found[0]
    if not Path(about.store).is_dir():
        raise TrimtabError(f"The feature store {about.store} is not here any more; this figure needs it.")
    parameters = {key: tuple(value) if isinstance(value, list) else value for key, value in about.parameters.items()}
    made = make_method(method, **parameters)
    mapped = map_features(FeatureStore.open(about.store), made, order=about.order, seed=about.seed, **options)
    return plots.plot_features(mapped, ax=ax)
