"""What a cluster costs: Ray against the local road, merging against adapting, and the time after a loss.

    python -m benchmarks.cluster [overhead] [merging] [recovery]

All on this machine, with real CIFAR-10 images through `lite`. Overhead: one shard of about half a minute,
on one Ray worker and without Ray, each with what it has to start. Merging: eight streams and their merge, timed.
Recovery: tests.audit.cluster_losses. The figures of docs/cluster.md and docs/sizing.md were made with it.
"""

import subprocess
import sys
import tempfile
import time
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

VIEWS, SHARD_IMAGES, SHARDS = 8, 500, 1
STREAMS, EVERY, ROUNDS = 8, (25, 100), 3


def overhead(console: Console, root: Path) -> None:
    """Seconds of the local road and of one Ray worker, with the same threads."""
    images, lite = load_dataset("cifar10"), load_encoder("lite")
    options: dict[str, Any] = {"views": VIEWS, "limit": SHARDS * SHARD_IMAGES}
    lite.encode_images(np.zeros((1, lite.input_size, lite.input_size, 3), np.uint8))  # whatever is made at first use
    start = time.perf_counter()
    here = encode_images(images, lite, out=root / "here", shard_images=SHARD_IMAGES, **options)
    local = time.perf_counter() - start
    start = time.perf_counter()
    with ray_session(cores=1):
        began = time.perf_counter() - start
        there = encode_on_ray(plan_encoding(images, lite, **options), lite, root / "there", shard_images=SHARD_IMAGES)
        done = time.perf_counter() - start
    assert there.fingerprint == here.fingerprint
    console.print(f"encode, {SHARDS} shards of {SHARD_IMAGES} images x {VIEWS} views:")
    console.print(f"  local road {local:.1f} s ({local / SHARDS:.1f} s per shard)")
    console.print(f"  Ray, one worker {done - began:.1f} s, {done / local - began / local - 1:+.1%}; equal bytes")
    console.print(f"  and {began:.1f} s to start a cluster, once")
    rate = SHARDS * SHARD_IMAGES * VIEWS / local
    console.print(f"  {rate:.1f} views per second on this machine's {_cores()} cores")


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


def _cores() -> int:
    from trimtab.images.loader import usable_cores

    return usable_cores()


PARTS = {"overhead": overhead, "merging": merging, "recovery": recovery}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for part in sys.argv[1:] or PARTS:
            PARTS[part](Console(width=130, highlight=False), Path(temporary))
