"""What a cluster costs: Ray against the local road, merging against adapting, and the time after a loss.

    python -m benchmarks.cluster [overhead] [merging] [recovery]

All on this machine, with real CIFAR-10 images through `lite`. Overhead: what one Ray
worker adds to a shard, beside the local road. Merging: eight streams and their merge, timed.
Recovery: tests.audit.cluster_losses. The figures of docs/cluster.md and docs/sizing.md were made with it.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from trimtab import MergingStream, make_method, merge
from trimtab.cluster.encode import encode_on_ray
from trimtab.cluster.session import ray_session
from trimtab.data import load_dataset
from trimtab.encoders import load_encoder
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images
from trimtab.features.encoding import plan_encoding
from trimtab.stream import Stream

VIEWS, SHARD_IMAGES, SHARDS = 8, 16, 4
STREAMS, EVERY, ROUNDS = 8, (25, 100), 3


def overhead(console: Console, root: Path) -> None:
    """What Ray adds to a shard, in seconds: to the first of a worker, which loads the encoder, and to each after it.

    The addition does not grow with the shard, so short shards show it best; a share of longer ones follows from it.
    """
    images, lite = load_dataset("cifar10"), load_encoder("lite")
    options: dict[str, Any] = {"views": VIEWS, "limit": SHARDS * SHARD_IMAGES}
    here, local = _shard_seconds(
        lambda tell: encode_images(images, lite, out=root / "here", shard_images=SHARD_IMAGES, progress=tell, **options)
    )
    plan = plan_encoding(images, lite, **options)
    start = time.perf_counter()
    with ray_session(cores=1):
        began = time.perf_counter() - start
        there, on_ray = _shard_seconds(
            lambda tell: encode_on_ray(plan, lite, root / "there", shard_images=SHARD_IMAGES, progress=tell)
        )
    assert there.fingerprint == here.fingerprint
    usual = float(np.median(local))
    first, later = on_ray[0] - usual, float(np.median(on_ray[1:])) - usual
    console.print(f"encode, {SHARDS} shards of {SHARD_IMAGES} images x {VIEWS} views, one Ray worker, equal bytes:")
    console.print(f"  {usual:.2f} s per shard without Ray, {float(np.median(on_ray[1:])):.2f} s with it")
    console.print(f"  Ray adds {first:.1f} s to a worker's first shard, {later:+.2f} s to each after it")
    console.print(
        f"  of shards of 30 s: {first / 30:.0%} and {later / 30:+.1%}; {began:.1f} s to start a cluster, once"
    )


def _shard_seconds(encode: Callable[[Callable[[int, int], None]], FeatureStore]) -> tuple[FeatureStore, list[float]]:
    """The store, and the seconds from one finished shard to the next."""
    times: list[float] = []

    def tell(done: int, _: int) -> None:
        if done % SHARD_IMAGES == 0:
            times.append(time.perf_counter())

    store = encode(tell)
    return store, np.diff(times).tolist()


def merging(console: Console, root: Path) -> None:
    """Seconds that a merge takes, beside the images between two merges."""
    store = encode_images(load_dataset("cifar10"), load_encoder("lite"), out=root / "store", limit=2400)
    for method in ("tda", "mcp"):
        for every in EVERY:
            played, merged = merge_times(store, method, every)
            console.print(
                f"{method}, {STREAMS} streams that merge every {every} images: {1000 * merged:.0f} ms per merge, "
                f"{1000 * played / (STREAMS * every):.2f} ms per image; merging is {merged / (played + merged):.0%} of "
                "the time on one core"
            )


def merge_times(store: FeatureStore, method: str, every: int) -> tuple[float, float]:
    """Seconds of playing a round, all streams one after the other, and of merging after it; the last of some rounds."""
    made, task = make_method(method), store.task()
    base = MergingStream(Stream(made, task))
    played = merged = 0.0
    for number in range(ROUNDS):
        streams, start = [base.copy() for _ in range(STREAMS)], time.perf_counter()
        for place, stream in enumerate(streams):
            rows = np.arange(number * STREAMS * every + place, (number + 1) * STREAMS * every, STREAMS)
            stream.run(store.rows(rows), [str(row) for row in rows], rows.tolist())
        played, start = time.perf_counter() - start, time.perf_counter()
        base = merge(streams)
        merged = time.perf_counter() - start
    return played, merged


def recovery(console: Console, root: Path) -> None:  # noqa: ARG001
    """Each loss in a simulated cluster of two nodes."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.audit.cluster_losses"], check=False, stdout=subprocess.PIPE, text=True
    )
    console.print(ran.stdout.rstrip())


PARTS = {"overhead": overhead, "merging": merging, "recovery": recovery}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for part in sys.argv[1:] or PARTS:
            PARTS[part](Console(width=130, highlight=False), Path(temporary))
