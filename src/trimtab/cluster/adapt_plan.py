"""What is to be adapted to, by whom and when: a store divided among streams, in rounds that end with a merge.

A stream's round is a pure function of the plan, its number, and the state that it begins with. That is what makes a
lost machine harmless: the round is played again from the snapshot that it began with, and gives the same bits.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.data.orders import order_by_name
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.merging import Kept, MergingStream
from trimtab.methods import make_method
from trimtab.storage import folder_at
from trimtab.stream import Stream


@dataclass(frozen=True)
class AdaptPlan:
    """Streams over a store; `merge_every` images of each make a round, and without merging only a snapshot."""

    store: str
    fingerprint: str  # of the store
    method: str
    streams: int
    merge_every: int
    merging: bool = True
    by_domain: bool = False  # a stream is a domain of the store, not every n-th image
    parameters: Mapping[str, Any] = field(default_factory=dict)
    order: str = "stored"
    seed: int = 0

    @property
    def key(self) -> str:
        """A hash of all of it, but of where the store lies."""
        said = {**asdict(self), "store": ""}
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=list).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Played:
    """What a round of one stream gave: labels, and what is kept, as (row of the store, time)."""

    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    times: NDArray[np.int64]


class Division:
    """A plan on its store: which images each stream meets in each round."""

    def __init__(self, plan: AdaptPlan) -> None:
        self.plan = plan
        self.store = FeatureStore.open(plan.store)
        if self.store.fingerprint != plan.fingerprint:
            raise TrimtabError(f"{plan.store} has changed since the plan was made; run the command again.")
        self.method = make_method(plan.method, **plan.parameters)
        self.task = self.store.task(self.method.needs)

    @cached_property
    def parts(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each stream the rows of its images, and their times, in order."""
        store, plan = self.store, self.plan
        order = order_by_name(plan.order, labels=store.labels, domains=store.domains, seed=plan.seed)
        times = np.arange(len(order))
        if not plan.by_domain:
            return [(order[s :: plan.streams], times[s :: plan.streams]) for s in range(plan.streams)]
        domains = np.array(store.domains)[order]
        return [(order[domains == name], times[domains == name]) for name in domain_names(store)]

    @property
    def rounds(self) -> int:
        """How many rounds the longest stream takes."""
        return -(-max(len(rows) for rows, _ in self.parts) // self.plan.merge_every)

    def play(self, stream: int, number: int, begin: MergingStream) -> Played:
        """One round of one stream, which continues from `begin`."""
        span = slice(number * self.plan.merge_every, (number + 1) * self.plan.merge_every)
        rows, times = (each[span] for each in self.parts[stream])
        labels = np.empty(0, np.int64)
        if len(rows):
            labels = begin.run(self.store.rows(rows), list(map(str, rows.tolist())), times.tolist()).labels
        kept = begin.kept
        kept_rows = np.array([int(each.source) for each in kept], np.int64)
        return Played(labels, kept_rows, np.array([each.time for each in kept], np.int64))

    def kept(self, played: Played) -> Iterator[Kept]:
        """What a round has left, with the images themselves, which the store has."""
        views = self.store.rows(played.rows) if len(played.rows) else np.empty((0,))
        for row, time, view in zip(played.rows.tolist(), played.times.tolist(), views, strict=True):
            yield Kept(str(row), time, view)

    def begin(self, snapshot: str | None) -> MergingStream:
        """The stream that a round begins with: a new one, or one from a snapshot."""
        if snapshot is None:
            self.parts  # noqa: B018  (refuses an order that does not fit the store)
            return MergingStream(Stream(self.method, self.task))
        return MergingStream.load(snapshot, self.task, self._views, self.method)

    def _views(self, source: str) -> Array:
        views: Array = self.store.rows([int(source)])[0]
        return views


def domain_names(store: FeatureStore) -> list[str]:
    """The domains of a store, in order; one sentence if it has none."""
    if store.domains is None:
        raise TrimtabError(f"{store.path} knows no domains of its images; leave --by-domain out.")
    return sorted(set(store.domains))


def refuse_other_plan(folder: object, plan: AdaptPlan) -> None:
    """Raise if a folder holds the rounds of another plan; note this one if it holds none."""
    place = folder_at("out", folder)
    if "plan.json" in place.sizes():
        there = json.loads(place.read("plan.json"))
        if there.get("key") != plan.key:
            raise TrimtabError(f"{folder} holds the rounds of another plan; choose another folder, or delete it first.")
        return
    place.write("plan.json", json.dumps({**asdict(plan), "key": plan.key}, indent=1, default=list).encode())
