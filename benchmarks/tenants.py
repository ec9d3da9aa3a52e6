"""Tenants of different domains: own caches, one cache for all, or shared by similarity, as Latte does.

    python -m benchmarks.tenants FILE.npz [METHOD] [SEEDS]

FILE holds features of several domains, as PACS has them (as in benchmarks.fusion_study.stores). One tenant per domain
takes in its own shuffled images. After every round the tenants combine what they hold by a policy:

* own: nothing is shared;
* global: all tenants merge, and continue from the same state;
* similar: a tenant merges with the tenant whose images are nearest to its own (cosine of the mean features, less the
  mean of all): the core of Latte (Bao et al., ICCV 2025), whose clients take the lowest-entropy items of similar ones;
* young: a tenant keeps its own caches from the start, but while it is young it predicts with those of "similar".

Prints the accuracy over the tenants' images since the round before, means over tenants and seeds.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_study.stores import load_stores
from trimtab import MergingStream, Task, make_method, merge
from trimtab.engine.arrays import Array
from trimtab.stream import Stream

ROUNDS = (10, 20, 50, 100, 200, 500, 1000, 1500)  # images of each tenant, up to which a round goes
YOUNG = 200  # images of each tenant

Streams = list[MergingStream]


def own(streams: Streams, means: Array, seen: int) -> Streams:  # noqa: ARG001
    return streams


def everyone(streams: Streams, means: Array, seen: int) -> Streams:  # noqa: ARG001
    merged = merge(streams)
    return [merged.copy() for _ in streams]


def similar(streams: Streams, means: Array, seen: int) -> Streams:  # noqa: ARG001
    centered = means - means.mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    near = unit @ unit.T - 2 * np.eye(len(unit))
    return [merge([stream, streams[int(near[i].argmax())]]) for i, stream in enumerate(streams)]


POLICIES: dict[str, Callable[[Streams, Array, int], Streams]] = {
    "own": own,
    "global": everyone,
    "similar": similar,
}


def accuracies(
    method: str, task: Task, tenants: list[tuple[Array, NDArray[np.int64]]], policy: Callable[..., Streams]
) -> list[float]:
    """Percent right in each round, the mean over tenants."""
    made = make_method(method)
    streams = [MergingStream(Stream(made, task)) for _ in tenants]
    sums = np.zeros((len(tenants), task.dim), np.float32)
    found, start = [], 0
    for stop in ROUNDS:
        right = []
        for number, (features, labels) in enumerate(tenants):
            rows = range(start, min(stop, len(labels)))
            said = streams[number].run(features[rows], [f"{number}/{row}" for row in rows], rows).labels
            right.append(100 * float(np.mean(said == labels[rows])))
            sums[number] += features[rows, 0].sum(axis=0)
        found.append(float(np.mean(right)))
        streams = policy(streams, sums / stop, stop)
        start = stop
    return found


def main(file: Path, method: str, seeds: int) -> None:
    (store,) = load_stores(file.parent, [file.stem])
    if store.domain is None:
        raise SystemExit(f"{file} knows no domains.")
    views, labels, domain = store.features[:, :1], store.labels, store.domain
    task = Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale)
    print(f"| images of each tenant | zero-shot | {' | '.join(POLICIES)} | young |")
    print("|---|---|---|" + "---|" * len(POLICIES))
    table = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        tenants = []
        for name in np.unique(domain):
            rows = rng.permutation(np.flatnonzero(domain == name))[: ROUNDS[-1]]
            tenants.append((views[rows], labels[rows]))
        columns = [accuracies("zero_shot", task, tenants, own)]
        columns += [accuracies(method, task, tenants, policy) for policy in POLICIES.values()]
        shared = [ROUNDS[number - 1] < YOUNG if number else True for number in range(len(ROUNDS))]
        columns.append(np.where(shared, columns[3], columns[1]).tolist())  # young: similar, then own
        table.append(columns)
    for number, cells in enumerate(np.mean(table, axis=0).T):
        first = ROUNDS[number - 1] if number else 0
        print(f"| {first + 1:,} to {ROUNDS[number]:,} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    _, place, *rest = sys.argv
    main(Path(place), rest[0] if rest else "mcp", int(rest[1]) if len(rest) > 1 else 5)
