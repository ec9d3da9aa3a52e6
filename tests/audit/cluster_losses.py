"""Workers, nodes and memory that are lost in the middle: `python -m tests.audit.cluster_losses`.

A simulated cluster of a head and one more node, each one core; real images, the real offline encoder. Takes about three
minutes and prints one line for each loss. Its figures are in docs/cluster.md.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.cluster import session
from trimtab.cluster.adapt import adapt_streams
from trimtab.cluster.adapt_plan import AdaptPlan
from trimtab.cluster.encode import encode_on_ray
from trimtab.data import load_dataset
from trimtab.encoders import load_encoder
from trimtab.engine.state_io import read_state
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images
from trimtab.features.encoding import plan_encoding
from trimtab.registry import DEFAULT_METHOD

IMAGES, PER_SHARD = 1200, 60


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[Any, Any]]:
    """A cluster, and the node that may be killed."""
    ray = session.import_ray()
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 150 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    try:
        other = cluster.add_node(**size)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster, other
    finally:
        ray.shutdown()
        cluster.shutdown()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lose_a_node(cluster: Any, other: Any) -> None:
    cluster.remove_node(other, allow_graceful=False)


def lose_a_worker(cluster: Any, other: Any) -> None:
    """SIGKILL to one process that works on a shard, found below this program's own raylets."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "make_shard" in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                return
    raise SystemExit("no worker was found to kill")


def encode_with(loss: Callable[[Any, Any], None] | None, expected: dict[str, bytes], out: Path) -> str:
    images, lite = load_dataset("cifar10"), load_encoder("lite")
    plan = plan_encoding(images, lite, limit=IMAGES)
    lost_at: list[float] = []
    with two_nodes() as (cluster, other):
        start = time.perf_counter()

        def told(done: int, total: int) -> None:
            if loss and not lost_at and done >= total // 3:
                loss(cluster, other)
                lost_at.append(time.perf_counter())

        encode_on_ray(plan, lite, out, shard_images=PER_SHARD, progress=told)
        end = time.perf_counter()
    same = "equal bytes" if contents(out) == expected else "OTHER BYTES"
    after = f", {end - lost_at[0]:.1f} s after the loss" if lost_at else ""
    return f"{end - start:.1f} s in all{after}; {same}"


def adapt_with(loss: Callable[[Any, Any], None] | None, store: Path, out: Path) -> tuple[str, dict[str, Any]]:
    opened = FeatureStore.open(store)
    plan = AdaptPlan(str(store), opened.fingerprint, DEFAULT_METHOD, streams=4, merge_every=50)
    lost_at: list[float] = []
    with two_nodes() as (cluster, other):
        start = time.perf_counter()

        def told(done: int, total: int) -> None:
            if loss and not lost_at and done >= total // 3:
                loss(cluster, other)
                lost_at.append(time.perf_counter())

        adapted = adapt_streams(plan, out, ray=True, progress=told)
        end = time.perf_counter()
    after = f", {end - lost_at[0]:.1f} s after the loss" if lost_at else ""
    state = read_state(adapted.snapshots[0]).arrays
    return f"{end - start:.1f} s in all{after}", {"labels": adapted.labels, **state}


def adapting(root: Path) -> bool:
    """Streams with and without a lost node; whether they differ."""
    said, expected = adapt_with(None, root / "here", root / "calm")
    print(f"adapt {IMAGES} images in 4 streams that merge, nothing lost: {said}", flush=True)
    said, found = adapt_with(lose_a_node, root / "here", root / "lossy")
    same = all(np.array_equal(found[name], expected[name]) for name in expected)
    print(f"the same, a node killed: {said}; {'equal bits' if same else 'OTHER BITS'}", flush=True)
    return not same


def main() -> int:
    """Print what became of each loss; 1 if anything differs."""
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        images, lite = load_dataset("cifar10"), load_encoder("lite")
        encode_images(images, lite, out=root / "here", shard_images=PER_SHARD, limit=IMAGES)
        expected = contents(root / "here")
        losses = {"nothing lost": None, "a worker killed": lose_a_worker, "a node killed": lose_a_node}
        for name, loss in losses.items():
            said = encode_with(loss, expected, root / "there")
            shutil.rmtree(root / "there")
            print(f"encode {IMAGES} images in {IMAGES // PER_SHARD} shards, {name}: {said}", flush=True)
            failed |= "OTHER" in said
        failed |= adapting(root)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
