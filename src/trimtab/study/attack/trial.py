"""A store under every attack: each method with a guard and without, over several orders; clean images are scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.guard.rules import Guard
from trimtab.methods import make_method
from trimtab.study.attack.bar import standard_error, wanted
from trimtab.study.attack.crafting import ATTACKS, Poisoned, Victim, poisoned
from trimtab.task import Task

CLEAN = "clean"


@dataclass(frozen=True)
class Outcome:
    """One method on one store under one attack: top-1 of the clean images in percent, means over the orders."""

    store: str
    method: str
    attack: str  # CLEAN: none
    guarded: bool
    accuracy: float
    refused_clean: float  # share of the clean images that were not learned
    refused_crafted: float
    short: float  # points below the bar that a stream is held to under an attack (bar.py); less than 0: above it
    error: float  # of that, a standard error over orders and images

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return vars(self)


@dataclass(frozen=True)
class Trials:
    """Everything that was tried on one store."""

    store: str
    zero_shot: float
    outcomes: tuple[Outcome, ...]

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "store": self.store,
            "zero_shot": self.zero_shot,
            "outcomes": [outcome.data() for outcome in self.outcomes],
        }

    def accuracy(self, method: str, attack: str, guarded: bool) -> float:
        """The top-1 of one cell."""
        wanted = (method, attack, guarded)
        return next(o.accuracy for o in self.outcomes if (o.method, o.attack, o.guarded) == wanted)


def try_attacks(
    name: str,
    task: Task,
    features: Array,
    labels: NDArray[np.int64],
    *,
    methods: Sequence[str],
    attacks: Sequence[str] = tuple(ATTACKS),
    orders: int = 3,
    images: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trials:
    """Every method under every attack, with a guard and without; `features` (N, d) are plain views."""
    chosen = [np.random.default_rng(seed).permutation(len(labels))[:images] for seed in range(orders)]
    victims = [Victim(features[order], labels[order], task.text_prototypes, task.logit_scale) for order in chosen]
    zero_shot = np.array([_right(victim.features @ victim.text.T, victim) for victim in victims])
    bars: dict[str, Doubles] = {}  # by method
    outcomes, done = [], 0
    for attack in (CLEAN, *attacks):
        streams = [_arriving(attack, victim, seed) for seed, victim in enumerate(victims)]
        for method in methods:
            for guarded in (False, True):
                cells = [_cell(method, task, *pair, guarded) for pair in zip(victims, streams, strict=True)]
                right = np.array([answered for answered, _, _ in cells])
                if method not in bars:  # without an attack or guard, which comes first
                    bars[method] = wanted(zero_shot, right)
                clean, crafted = (float(np.mean(shares)) for shares in list(zip(*cells, strict=True))[1:])
                below = bars[method] - 100.0 * right
                short, error = float(below.mean()), standard_error(below, np.array(chosen))
                accuracy = 100 * float(right.mean())
                outcomes.append(Outcome(name, method, attack, guarded, accuracy, clean, crafted, short, error))
                done += 1
                if progress:
                    progress(done)
    return Trials(name, 100 * float(zero_shot.mean()), tuple(outcomes))


def try_store(
    store: FeatureStore,
    *,
    methods: Sequence[str],
    attacks: Sequence[str],
    orders: int,
    images: int | None,
    progress: Callable[[int], None] | None = None,
) -> Trials:
    """The same for the plain views of a feature store, which needs labels."""
    labels = store.labels
    if (labels < 0).any():
        raise TrimtabError(f"{store.path} has images without labels, so the cost of an attack cannot be told.")
    features = np.asarray(store.rows(slice(None))[:, 0], np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    task, name = store.task(), store.info.dataset
    return try_attacks(
        name,
        task,
        features,
        labels,
        methods=methods,
        attacks=attacks,
        orders=orders,
        images=images,
        progress=progress,
    )


def _arriving(attack: str, victim: Victim, seed: int) -> Poisoned:
    if attack == CLEAN:
        return Poisoned(victim.features, np.ones(len(victim.features), np.bool_))
    return poisoned(attack, victim, seed)


def _right(scores: Array, victim: Victim) -> NDArray[np.bool_]:
    return scores.argmax(axis=1) == victim.labels


def _cell(
    method: str, task: Task, victim: Victim, arriving: Poisoned, guarded: bool
) -> tuple[NDArray[np.bool_], float, float]:
    """Which clean images are answered rightly, and the shares of clean and of crafted images that were not learned."""
    stream = make_method(method).start(task, Guard() if guarded else None)
    answers, refused = [], []
    for first in range(0, len(arriving.features), 1024):  # the guard remembers so many verdicts
        answers.append(stream.run(arriving.features[first : first + 1024], keep_parts=False).probabilities)
        refused += [stream.watch is not None and stream.watch.refused(p) for p in range(first, stream.seen)]
    right = _right(np.concatenate(answers)[arriving.clean], victim)
    not_learned, crafted = np.array(refused), ~arriving.clean
    return right, float(not_learned[~crafted].mean()), float(not_learned[crafted].mean()) if crafted.any() else 0.0
