"""Tenants of different domains: own caches, one cache for all, or shared by similarity, as Latte does.

    python -m benchmarks.tenants FILE.npz [METHOD] [SEEDS]

FILE holds features of several domains (as in benchmarks.fusion_study.stores). One tenant per domain takes in its own
shuffled images. After every round the tenants combine what they hold by a policy:

* own: nothing is shared;
* global: all tenants merge, and continue from the same state;
* similar: a tenant merges with the tenant whose images are nearest to its own (cosine of the mean features, less the
  mean of all): the core of Latte (Bao et al., ICCV 2025), whose clients take the lowest-entropy items of similar ones;
* kin: a tenant keeps its own caches from the start, but predicts with those of "similar" while its images are hardly
  told from its neighbor's: while the squared distance of their means is below KINSHIP times what chance would give
  two samples of their sizes. Tenants of one kind stay kin for ever, others part the sooner the more they differ.

Prints the accuracy over the tenants' images since the round before, means over tenants and seeds; and the mean over the
rounds for other values of KINSHIP. Its value was chosen, by labels, on corruptions of CIFAR-10 and not on PACS.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import method_name, place, run_study, whole
from benchmarks.fusion_study.stores import load_stores
from trimtab import MergingStream, Task, make_method, merge
from trimtab.engine.arrays import Array, Doubles
from trimtab.errors import TrimtabError
from trimtab.stream import Stream

ROUNDS = (10, 20, 50, 100, 200, 500, 1000, 1500)  # images of each tenant, up to which a round goes
KINSHIP = 4.0
TRIED = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf)  # 0: own; infinite: similar

Streams = list[MergingStream]
Tenants = list[tuple[Array, NDArray[np.int64]]]  # features and labels of each


class Images:
    """What tenants know of each other's images: sums, and nothing of any single one."""

    def __init__(self, tenants: int, dim: int) -> None:
        self.sums, self.squares, self.seen = np.zeros((tenants, dim)), np.zeros(tenants), 0

    def take_in(self, tenant: int, features: Array) -> None:
        """More images of a tenant."""
        self.sums[tenant] += features.sum(axis=0, dtype=np.float64)
        self.squares[tenant] += float((features.astype(np.float64) ** 2).sum())

    def nearest(self) -> NDArray[np.intp]:
        """The tenant that is most similar to each."""
        means = self.sums / self.seen
        centered = means - means.mean(axis=0)
        unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
        return np.asarray((unit @ unit.T - 2 * np.eye(len(unit))).argmax(axis=1))

    def distances(self) -> Doubles:
        """Squared distance of each tenant's mean to its nearest's, over what two samples of one kind would show."""
        means, near = self.sums / self.seen, self.nearest()
        spread = self.squares / self.seen - (means**2).sum(axis=1)
        apart = ((means - means[near]) ** 2).sum(axis=1)
        return np.asarray(apart * (self.seen - 1) / (spread + spread[near]))


def own(streams: Streams, images: Images) -> Streams:  # noqa: ARG001
    return streams


def everyone(streams: Streams, images: Images) -> Streams:  # noqa: ARG001
    merged = merge(streams)
    return [merged.copy() for _ in streams]


def similar(streams: Streams, images: Images) -> Streams:
    return [merge([stream, streams[near]]) for stream, near in zip(streams, images.nearest().tolist(), strict=True)]


class Course(NamedTuple):
    """(rounds, tenants): percent right, and the distance to the nearest tenant that was known before the round."""

    right: Doubles
    distances: Doubles


def course(method: str, task: Task, tenants: Tenants, policy: Callable[[Streams, Images], Streams]) -> Course:
    """Play all rounds under a policy."""
    made = make_method(method)
    streams = [MergingStream(Stream(made, task)) for _ in tenants]
    images = Images(len(tenants), task.dim)
    right, distances = [], [np.zeros(len(tenants))]
    for stop in rounds_of(tenants):
        found = []
        for number, (features, labels) in enumerate(tenants):
            rows = range(images.seen, stop)
            said = streams[number].run(features[rows], [f"{number}/{row}" for row in rows], rows).labels
            found.append(100 * float(np.mean(said == labels[rows])))
            images.take_in(number, features[rows, 0])
        images.seen = stop
        right.append(found)
        distances.append(images.distances())
        streams = policy(streams, images)
    return Course(np.array(right), np.array(distances[:-1]))


def rounds_of(tenants: Tenants) -> list[int]:
    """As many rounds as every tenant has images for."""
    return [stop for stop in ROUNDS if stop <= min(len(labels) for _, labels in tenants)]


def kin(alone: Course, shared: Course, kinship: float) -> Doubles:
    """(rounds,): percent right of tenants that borrow while they are kin; the mean over tenants."""
    return np.asarray(np.where(shared.distances < kinship, shared.right, alone.right).mean(axis=1))


def main(file: Path, method: str, seeds: int) -> None:
    (store,) = load_stores(file.parent, [file.stem])
    if store.domain is None:
        raise TrimtabError(f"{file} knows no domains; give a store that has some.")
    views, labels, domain = store.features[:, :1], store.labels, store.domain
    task = Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale)
    table, tried = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        tenants = []
        for name in np.unique(domain):
            rows = rng.permutation(np.flatnonzero(domain == name))[: ROUNDS[-1]]
            tenants.append((views[rows], labels[rows]))
        plain = course("zero_shot", task, tenants, own)
        alone, all_in_one, shared = (course(method, task, tenants, policy) for policy in (own, everyone, similar))
        columns = [each.right.mean(axis=1) for each in (plain, alone, all_in_one, shared)]
        table.append([*columns, kin(alone, shared, KINSHIP), 100 * (shared.distances < KINSHIP).mean(axis=1)])
        tried.append([kin(alone, shared, kinship).mean() for kinship in TRIED])
    print("| images of each tenant | zero-shot | own | global | similar | kin | of tenants that are kin |")
    print("|---|---|---|---|---|---|---|")
    for number, cells in enumerate(np.mean(table, axis=0).T):
        first = ROUNDS[number - 1] if number else 0
        *percents, borrow = cells
        shown = " | ".join(f"{cell:.1f}" for cell in percents)
        print(f"| {first + 1:,} to {ROUNDS[number]:,} | {shown} | {borrow:.0f} % |")
    said = ", ".join(f"{kinship:g}: {mean:.2f}" for kinship, mean in zip(TRIED, np.mean(tried, axis=0), strict=True))
    print(f"mean over the rounds by KINSHIP (0 is own, inf similar): {said}")


if __name__ == "__main__":
    run_study(main, __doc__, place("FILE.npz"), method_name("mcp"), whole("SEEDS", "5"))
