"""The paper's argument for the align cache, made checkable on a finished run.

Its appendix bounds the excess error of a cache classifier twice, up to a constant:

    Proposition 1, entropy cache:          ((1/k_t)^(1/4)       + (k_t/(c_t n_t))^(1/d))^(1+beta)
    Proposition 2, with the align cache:   ((1/(k_t+k_a))^(1/4) + a (k_t/(c_t n_t))^(1/d)
                                                                + (1-a) (k_a/(c_a n_a))^(1/d))^(1+beta)

and argues c_a >= c_t / P(|g(x) - mu| <= d_0) > c_t, where d_0 is the distance from a class's center mu to the farthest
item of its align cache. Its proof that the second bound is tighter needs k_t/n_t = k_a/n_a besides.

What can be counted on a run is counted here: d_0, P, k and n. What is assumed is named in CAVEATS. No labels are used:
an image belongs to the class it was offered to.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.orders import order_by_name
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods.mcp import MCP, MCPState

CAVEATS = (
    "The bounds hold up to a constant that nobody knows, so only their ratio means something.",
    "c_t cannot be measured: it is taken as 1, and c_a as the least that the paper derives from it, 1 / P.",
    "Stored items are taken as labeled rightly, and the densities as the assumptions have them; neither is checked.",
    "The proof takes low entropy and nearness to the center as independent, hence a retention of 1. Caches of equally "
    "many slots that are full have a retention of 1 / P, and then c_a > c_t gains nothing in the second term.",
    "With d in the hundreds the second term is near 1 whatever the caches hold: what is left of the gain is "
    "k_t + k_a > k_t, as a larger entropy cache would have it.",
)


@dataclass(frozen=True)
class ClassDensity:
    """One class, as the run left it."""

    name: str
    offered: int  # n_t: images offered to its entropy cache
    voted: int  # images offered to its align cache
    aligned: int  # n_a: those of them within the radius
    stored_entropy: int  # k_t
    stored_align: int  # k_a
    radius: float  # d_0; NaN without items

    @property
    def inside(self) -> float:
        """P(|g(x) - mu| <= d_0) over the images of the class."""
        return self.aligned / self.voted if self.voted else math.nan

    @property
    def density_ratio(self) -> float:
        """The least c_a / c_t that the paper derives: 1 / P."""
        return self.voted / self.aligned if self.aligned else math.nan

    @property
    def retention(self) -> float:
        """(k_a / n_a) / (k_t / n_t): 1 if the proof's first step holds on this stream."""
        if not (self.aligned and self.stored_entropy):
            return math.nan
        return (self.stored_align / self.aligned) / (self.stored_entropy / self.offered)


@dataclass(frozen=True)
class Bounds:
    """Both propositions' bounds without their constant."""

    entropy_only: float
    with_align: float

    @property
    def ratio(self) -> float:
        """Below 1: the align cache tightens the bound."""
        return self.with_align / self.entropy_only


@dataclass(frozen=True)
class Theory:
    """What the run says about the argument."""

    dataset: str
    dim: int
    classes: tuple[ClassDensity, ...]
    beta: float
    bounds: Bounds

    @property
    def held(self) -> tuple[ClassDensity, ...]:
        """The classes whose align cache holds something."""
        return tuple(density for density in self.classes if density.stored_align)

    def median(self, name: str) -> float:
        """Over the classes that hold something."""
        return float(np.nanmedian([getattr(density, name) for density in self.held]))

    def data(self) -> dict[str, Any]:
        """Everything for programs: each class that holds something, the medians, the bounds and what is assumed."""
        derived = ("inside", "density_ratio", "retention")
        return {
            "dataset": self.dataset,
            "dim": self.dim,
            "beta": self.beta,
            "classes": [asdict(d) | {name: getattr(d, name) for name in derived} for d in self.held],
            "medians": {name: self.median(name) for name in ("radius", *derived)},
            "bounds": asdict(self.bounds) | {"ratio": self.bounds.ratio},
            "assumed": list(CAVEATS),
        }


def check_theory(
    store: FeatureStore, method: MCP | None = None, *, order: str = "shuffled", seed: int = 0, beta: float = 1.0
) -> Theory:
    """Run MCP on a store and evaluate the argument; `beta` is the exponent of the low-noise assumption."""
    arguments.instance("store", store, FeatureStore, "a FeatureStore")
    made = MCP() if method is None else arguments.instance("method", method, MCP, "an MCP()")
    if made.align_slots == 0 or made.entropy_slots == 0:
        raise TrimtabError("The argument compares an entropy cache with an align cache; give both at least one slot.")
    arguments.positive("beta", beta)
    positions = order_by_name(order, labels=store.labels, domains=store.domains, seed=seed)
    task = store.task()
    stream = made.start(task)
    rows = store.rows(positions)
    stream.run(rows, keep_parts=False)
    block = made.look(task, _unit(rows), 0)
    state: MCPState = stream.state
    labels, votes = np.asarray(block.labels), np.asarray(block.vote_labels)
    densities = tuple(
        _density(
            name,
            label,
            state.caches.bank,
            weight=made.center_weight,
            offered=int((labels == label).sum()),
            voted=block.queries[votes == label],
        )
        for label, name in enumerate(task.class_names)
    )
    held = [density for density in densities if density.stored_align]
    if not held:
        raise TrimtabError("The align caches stayed empty; give the stream more images.")
    return Theory(store.info.dataset, task.dim, densities, beta, _bounds(held, task.dim, beta))


def bounds(
    *, k_t: float, n_t: float, k_a: float, n_a: float, density_ratio: float, dim: int, beta: float = 1.0
) -> Bounds:
    """Propositions 1 and 2 with constant 1, c_t = 1 and every stored item weighing the same."""
    share = k_t / (k_t + k_a)  # a
    spread_t = (k_t / n_t) ** (1 / dim)
    spread_a = (k_a / (density_ratio * n_a)) ** (1 / dim)
    first = (k_t**-0.25 + spread_t) ** (1 + beta)  # Proposition 1
    second = ((k_t + k_a) ** -0.25 + share * spread_t + (1 - share) * spread_a) ** (1 + beta)  # Proposition 2
    return Bounds(first, second)


def _density(name: str, label: int, bank: Bank, *, weight: float, offered: int, voted: Array) -> ClassDensity:
    stored_t, stored_a = bank.count("entropy", label), bank.count("align", label)
    if not stored_a:
        return ClassDensity(name, offered, len(voted), 0, stored_t, stored_a, math.nan)
    items = slice(1, bank.sections["align"].stop)
    visual = bank.items(label, items)[bank.occupied[label, items] > 0].mean(axis=0)
    center = weight * visual + (1 - weight) * bank.item(label, 0)  # Eq. 2
    align = bank.items(label, bank.sections["align"])[:stored_a]
    radius = float(np.linalg.norm(align - center, axis=1).max())
    aligned = int((np.linalg.norm(voted - center, axis=1) <= radius).sum())
    return ClassDensity(name, offered, len(voted), aligned, stored_t, stored_a, radius)


def _bounds(held: list[ClassDensity], dim: int, beta: float) -> Bounds:
    """Of the whole run: stored and passing images are counted over all classes, as the propositions do."""
    k_t = sum(density.stored_entropy for density in held)
    k_a = sum(density.stored_align for density in held)
    n_a = max(sum(density.aligned for density in held), k_a)
    n_t = max(sum(density.offered for density in held), k_t)
    ratio = max(sum(density.voted for density in held), n_a) / n_a
    return bounds(k_t=k_t, n_t=n_t, k_a=k_a, n_a=n_a, density_ratio=ratio, dim=dim, beta=beta)


def _unit(rows: NDArray[np.floating[Any]]) -> Array:
    features = np.asarray(rows, np.float32)
    unit: Array = features / np.linalg.norm(features, axis=-1, keepdims=True)
    return unit
