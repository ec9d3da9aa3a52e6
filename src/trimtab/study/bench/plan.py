"""What is to be run: every combination of stores, methods and orders, each with a name of its own on the disk."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab import arguments
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.fusion import new_fusion
from trimtab.methods import list_methods, make_method
from trimtab.methods.base import Method
from trimtab.study.bench.tuned import TunedParameters

BASELINE = "zero_shot"  # always in the table
WEIGHTS = {
    "fixed": "the same weight for every part of a prediction",
    "auto": "weights found along the stream, without labels",
    "oracle": "weights searched on the TEST LABELS, as the papers' headline figures are; no real stream can have them",
}


@dataclass(frozen=True)
class Run:
    """One method on one store in one order. It makes one record for each way of weighing the prediction's parts."""

    store: str
    dataset: str
    fingerprint: str  # of the store
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # those that differ from the method's defaults
    order: str = "shuffled"
    seed: int = 0
    weights: tuple[str, ...] = ("fixed",)
    views: int | None = None  # only the first so many views; None: all
    variant: str = ""  # what sets the run apart from the plain method, for people
    tuned_on: str = ""  # the fingerprint of the store whose labels the parameters were chosen on, if any
    contents: Mapping[str, str] = field(default_factory=dict)  # parameter -> a hash of the file that it names
    view_budget: float | None = None  # views per image that `LazyViews` may have encoded; None: all
    images: str = ""  # the data set behind the store, for a method that needs pixels; it does not set runs apart

    def file_of(self, weights: str) -> str:
        """Where the record of one way of weighing goes, below the folder of results."""
        parameters = sorted({**self.parameters, **self.contents}.items())
        what = [self.fingerprint, self.method, parameters, self.variant, self.tuned_on]
        key = [*what, self.order, self.seed, self.views, weights]
        digest = hashlib.sha256(json.dumps(key, default=list).encode()).hexdigest()[:8]
        return f"{_plain(self.dataset)}/{_plain(self.order)}-{self.seed}/{self.method}-{weights}-{digest}.json"

    @property
    def files(self) -> dict[str, str]:
        """Way of weighing -> file."""
        return {weights: self.file_of(weights) for weights in self.weights}

    def __str__(self) -> str:
        variant = f" [{self.variant}]" if self.variant else ""
        return f"{self.method}{variant} on {self.dataset}, {self.order} {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Runs, in the order in which they are started."""

    runs: tuple[Run, ...]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def files(self) -> list[str]:
        """Every record that the plan makes."""
        return [file for run in self.runs for file in run.files.values()]


def make_plan(
    stores: Sequence[str | Path],
    methods: Sequence[str] = ("all",),
    *,
    orders: Sequence[str] = ("shuffled",),
    seeds: int = 5,
    weights: Sequence[str] = ("fixed",),
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    tuned: Sequence[TunedParameters] = (),
    images: Sequence[str] = (),
    view_budget: float | None = None,
) -> Plan:
    """Every method on every store in every order, drawn with `seeds` seeds. Zero-shot is added if it is not named.

    `parameters` maps a method's name to those of its hyper-parameters that shall differ from the defaults. Each of
    `tuned` adds a row of its own. `images` are the data sets behind the stores, for methods that need pixels.
    `view_budget` adds a row for each method, which then sees only the views that `trimtab.lazy_views` would encode.
    """
    arguments.names_or_paths("stores", stores)
    arguments.names("orders", orders)
    arguments.names("weights", weights)
    names = method_names(arguments.names("methods", methods))
    changes = parameters or {}
    unused = [name for name in changes if name not in names]
    if unused:
        raise TrimtabError(f"Parameters are given for {unused[0]!r}, which is not among the methods to run.")
    arguments.whole("seeds (the number of orders)", seeds, least=1)
    rows = [_Row(name, changes.get(name, {})) for name in names]
    rows += [_Row(found.method, found.parameters, found.name, found.tuned_on) for found in tuned]
    if view_budget is not None:
        rows += [_Row(name, changes.get(name, {}), view_budget=view_budget) for name in _of_several_views(names)]
    if images and not any("pixels" in row.needs for row in rows):
        raise TrimtabError(
            f"--images is for methods that need pixels, and none of {', '.join(names)} does; leave it out."
        )
    runs = []
    for path in stores:
        store = labeled_store(path)
        if view_budget is not None and not 1 <= view_budget <= store.views:
            raise TrimtabError(
                f"A view budget must be between 1 and the number of views of {path}, {store.views}, not {view_budget}."
            )
        for order in orders:
            order_by_name(order, labels=store.labels, domains=store.domains)  # refuses a bad order now
            for seed in range(1 if order == "stored" else seeds):
                runs += [row.run(path, store, order=order, seed=seed, weights=weights, images=images) for row in rows]
    return Plan(tuple({tuple(run.files.values()): run for run in runs}.values()))  # a store may be named twice


class _Row:
    """A row of the table to come: a method with its parameters, on any store in any order."""

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        variant: str = "",
        tuned_on: str = "",
        view_budget: float | None = None,
    ) -> None:
        self._method = make_method(name, **parameters)  # refuses bad parameters before anything runs
        self._parameters, self._tuned_on, self._view_budget = parameters, tuned_on, view_budget
        self._contents = self._method.contents()
        shown = {**parameters, **{key: value[:8] for key, value in self._contents.items()}}
        shown |= {} if view_budget is None else {"view_budget": view_budget}
        self._variant = variant or ", ".join(f"{key}={value}" for key, value in shown.items())

    @property
    def needs(self) -> frozenset[str]:
        return self._method.needs

    def run(
        self,
        path: str | Path,
        store: FeatureStore,
        *,
        order: str,
        seed: int,
        weights: Sequence[str],
        images: Sequence[str],
    ) -> Run:
        return Run(
            store=str(path),
            dataset=store.info.dataset,
            fingerprint=store.fingerprint,
            method=self._method.name,
            parameters=self._parameters,
            order=order,
            seed=seed,
            weights=possible_weights(self._method, weights),
            variant=self._variant,
            tuned_on=self._tuned_on,
            contents=self._contents,
            view_budget=self._view_budget,
            images=images_behind(store, images, self._method.name, path) if "pixels" in self.needs else "",
        )


def method_names(methods: Iterable[str]) -> tuple[str, ...]:
    """Names with "all" spelled out, zero-shot first, each once.

    "all" are the methods that need nothing but features: those that tune prompts through an encoder take hours where
    these take seconds, and are run when they are named.
    """
    names = [name for given in methods for name in (_of_features() if given == "all" else [given])]
    for name in names:
        if name not in list_methods():
            raise TrimtabError(f"There is no method {name!r}; the methods are all, {', '.join(list_methods())}.")
    return tuple(dict.fromkeys([BASELINE, *names]))


def _of_several_views(names: Iterable[str]) -> list[str]:
    """Those that look at more than the plain view, and at features."""
    return [name for name in names if name != BASELINE and "pixels" not in make_method(name).needs]


def _of_features() -> list[str]:
    return [name for name in list_methods() if not make_method(name).needs]


def not_in_all() -> list[str]:
    """The methods that "all" leaves out."""
    return [name for name in list_methods() if make_method(name).needs]


def possible_weights(method: Method, wanted: Sequence[str]) -> tuple[str, ...]:
    """The ways of weighing that make a difference.

    A prediction of one part has nothing to weigh, and neither has one whose own weights leave a part out: its parts are
    alternatives, of which it has chosen.
    """
    for name in wanted:
        if name not in WEIGHTS:
            raise TrimtabError(f"There are no weights called {name!r}; choose from {', '.join(WEIGHTS)}.")
    fusion = method.parameters().get("fusion")
    if len(method.parts) == 1 or (isinstance(fusion, tuple) and 0 in fusion):
        return ("fixed",)
    return tuple(dict.fromkeys(name for name in wanted if name != "auto" or (fusion and _can_be_auto(method.parts))))


def _can_be_auto(parts: Sequence[str]) -> bool:
    """Whether weights can be found without labels for these parts."""
    try:
        new_fusion("auto", parts, classes=2)
    except TrimtabError:
        return False
    return True


def labeled_store(path: str | Path) -> FeatureStore:
    """A finished store whose images have labels, or one sentence on why it cannot be benchmarked.

    Every byte is compared with its checksum: a record names the features by their fingerprint, so they must be those.
    """
    store = FeatureStore.open(path)
    if not (store.labels >= 0).any():
        raise TrimtabError(f"{path} has no labels, so nothing can be scored on it; benchmark a labeled set.")
    store.verify()
    return store


def images_behind(store: FeatureStore, given: Sequence[str], method: str, path: str | Path) -> str:
    """Which of the given data sets a store's images are in, or one sentence on what is missing."""
    dataset = store.info.dataset
    for data in given:
        if dataset in (data, Path(data).name):
            return data
    if len(given) == 1:
        return given[0]
    raise TrimtabError(
        f"{method} needs pixels, which {path} does not hold; say where the images of {dataset} are, with --images."
    )


def _plain(name: str) -> str:
    """A name that every file system takes."""
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
