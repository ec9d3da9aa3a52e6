"""What a cluster costs: Ray against the local road, merging against adapting, and the time after a loss.

    python -m benchmarks.cluster [overhead] [merging] [recovery]

All on this machine, with real CIFAR-10 images through `lite`. Overhead: what one Ray worker adds to a shard of half a
minute; with the first, the worker starts and loads the encoder. Merging: eight streams and their merge, timed.
Recovery: tests.audit.cluster_losses. The figures of docs/cluster.md and docs/sizing.md were made with it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console

from benchmarks.command_line import Argument, run_study
from trimtab import MergingStream, arguments, make_method, merge
from trimtab.cluster.encode import encode_on_ray
from trimtab.cluster.session import ray_session
from trimtab.data import load_dataset
from trimtab.data.base import ImageSet
from trimtab.encoders import load_encoder
from trimtab.encoders.base import Encoder
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images
from trimtab.features.encoding import plan_encoding
from trimtab.stream import Stream

VIEWS, SHARD_IMAGES, SHARDS = 8, 352, 3  # a shard of more than half a minute of a core
STREAMS, EVERY, ROUNDS = 8, (25, 100, 400), 3


def overhead(console: Console, root: Path) -> None:
    """What Ray adds to a shard of half a minute: the same shard here and on one worker, in turns."""
    images, lite = load_dataset("cifar10"), load_encoder("lite")
    encode_images(images, lite, out=root / "warm", views=VIEWS, limit=8)  # here all is loaded; a worker has yet to
    start = time.perf_counter()
    with ray_session(cores=1):
        began = time.perf_counter() - start
        console.print(
            f"a cluster starts in {began:.1f} s; shards of {SHARD_IMAGES} images x {VIEWS} views, one worker:"
        )
        for turn in range(SHARDS):
            here, there = _pair(images, lite, turn, root)
            console.print(
                f"  shard {turn + 1}: {here[0]:.1f} s here, {there[0]:.1f} s on Ray; {here[1]:.1f} core seconds here, "
                f"{there[1]:.1f} on Ray, {there[1] / here[1] - 1:+.1%}; equal bytes"
            )


def _pair(images: ImageSet, lite: Encoder, turn: int, root: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds and core seconds of a shard made here, and of the same one made by a worker."""
    options: dict[str, Any] = {"views": VIEWS, "limit": SHARD_IMAGES, "seed": turn}
    begin = _clocks()
    here = encode_images(images, lite, out=root / f"here-{turn}", shard_images=SHARD_IMAGES, **options)
    between = _clocks()
    plan = plan_encoding(images, lite, **options)
    there = encode_on_ray(plan, lite, root / f"there-{turn}", shard_images=SHARD_IMAGES)
    end = _clocks()
    assert there.fingerprint == here.fingerprint
    return (between[0] - begin[0], between[1] - begin[1]), (end[0] - between[0], end[1] - between[1])


def _clocks() -> tuple[float, float]:
    """The time, and the processor time of this program and all that it has started: Ray and its workers."""
    us = psutil.Process()
    spent = [process.cpu_times() for process in (us, *us.children(recursive=True))]
    return time.perf_counter(), sum(times.user + times.system for times in spent)


def merging(console: Console, root: Path) -> None:
    """Core seconds that a merge takes, beside the images between two merges."""
    images = STREAMS * max(EVERY) * ROUNDS
    store = encode_images(load_dataset("cifar10"), load_encoder("lite"), out=root / "store", limit=images)
    for method in ("tda", "mcp", "keel"):
        for every in EVERY:
            played, merged = merge_times(store, method, every)
            console.print(
                f"{method}, {STREAMS} streams that merge every {every} images: {1000 * merged:.0f} ms per merge, "
                f"{1000 * played / (STREAMS * every):.2f} ms per image; merging is {merged / (played + merged):.0%} of "
                "the core time"
            )


def merge_times(store: FeatureStore, method: str, every: int) -> tuple[float, float]:
    """Core seconds of playing a round, all streams in turn, and of merging after it; the last of some rounds."""
    made, task = make_method(method), store.task()
    base = MergingStream(Stream(made, task))
    played = merged = 0.0
    for number in range(ROUNDS):
        streams, start = [base.copy() for _ in range(STREAMS)], time.process_time()
        for place, stream in enumerate(streams):
            rows = np.arange(number * STREAMS * every + place, (number + 1) * STREAMS * every, STREAMS)
            stream.run(store.rows(rows), [str(row) for row in rows], rows.tolist())
        played, start = time.process_time() - start, time.process_time()
        base = merge(streams)
        merged = time.process_time() - start
    return played, merged


def recovery(console: Console, root: Path) -> None:  # noqa: ARG001
    """Each loss in a simulated cluster of two nodes."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.audit.cluster_losses"], check=False, stdout=subprocess.PIPE, text=True
    )
    said = [line for line in ran.stdout.splitlines() if line.startswith(("encode ", "adapt ", "the same"))]
    console.print("\n".join(said), soft_wrap=True)  # without what Ray says of its dead
    if ran.returncode:
        raise SystemExit("A loss has changed what came out.")


PARTS = {"overhead": overhead, "merging": merging, "recovery": recovery}


def main(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        for part in parts or PARTS:
            PARTS[part](Console(width=130, highlight=False), Path(temporary))


if __name__ == "__main__":
    run_study(main, __doc__, Argument("PART", lambda word: arguments.word("PART", word, PARTS), many="*"))
