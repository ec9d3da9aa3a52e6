"""A thousand streams in one process, under a bound on memory: what they take, and how long one takes to wake.

    python -m benchmarks.serve_streams [--streams 1000] [--megabytes 512]

Real images (CIFAR-10, encoded by `lite`), the default method and its guard, everything written down and flushed. Every
stream takes in some images, in a shuffled order of streams, several times: most of the streams that are asked for sleep
on the disk, and others have to make room.
"""

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from trimtab.data import load_dataset
from trimtab.encoders import load_encoder
from trimtab.engine.arrays import Array
from trimtab.images.views import make_views
from trimtab.prompts import text_prototypes
from trimtab.serve import Hub, Request, StreamSettings

IMAGES = 256
CALLS, TOGETHER = 12, 3  # requests of a stream before another one's turn, and images in each
TURNS = 2
PER_TURN = CALLS * TOGETHER


def features() -> tuple[tuple[str, ...], Array, float, Array]:
    """CIFAR-10's class names, their text prototypes, the logit scale, and the features of some images."""
    images, lite = load_dataset("cifar10"), load_encoder("lite")
    names = tuple(images.class_names)
    pixels = [make_views(images.load(number), lite.input_size, 1, 0) for number in range(IMAGES)]
    rows = np.concatenate([lite.encode_images(np.concatenate(pixels[n : n + 32])) for n in range(0, IMAGES, 32)])
    return names, text_prototypes(lite, names), lite.logit_scale, rows


def show(console: Console, streams: int = 1000, megabytes: int = 512) -> None:
    """Measure and print."""
    names, text, scale, rows = features()
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-streams-", dir=os.environ.get("TMPDIR")) as folder,
        Hub.open(folder, memory=megabytes << 20, awake=streams) as hub,
    ):
        started = time.perf_counter()
        for number in range(streams):
            hub.create(StreamSettings(name=f"s{number}", labels=names), text, scale)
        created = (time.perf_counter() - started) / streams
        hub.get("s0").classify([Request(row) for row in rows[:70]])  # compiles
        hub.get("s0").sleep()
        gc.collect()
        gc.freeze()  # as the server does
        before = peak = _resident()
        order = np.random.default_rng(0)
        woken: list[float] = []
        steps: list[float] = []
        most_awake = most_bytes = 0
        for turn in range(TURNS):
            for number in order.permutation(streams).tolist():
                tenant = hub.get(f"s{number}")
                first = number % (IMAGES - TURNS * PER_TURN) + turn * PER_TURN
                calls = [rows[start : start + TOGETHER] for start in range(first, first + PER_TURN, TOGETHER)]
                if tenant.bytes == 0:
                    seconds = _seconds(tenant.health)
                    woken += [seconds] if turn else []
                steps += [_seconds(partial(tenant.classify, [Request(row) for row in call])) for call in calls]
                figures = hub.figures()
                most_awake, most_bytes = max(most_awake, figures["awake"]), max(most_bytes, figures["bytes"])
                peak = max(peak, _resident())
        table = Table(title=f"{streams:,} streams in one process, bound {megabytes} MB")
        for column in ("what", "measured"):
            table.add_column(column)
        for what, measured in (
            ("images taken in", f"{streams * TURNS * PER_TURN:,}"),
            ("streams awake at most", f"{most_awake:,}"),
            ("their arrays, as the hub counts them", f"{most_bytes / 2**20:.0f} MB"),
            ("growth of the process's resident memory", f"{(peak - before) / 2**20:.0f} MB"),
            ("making a stream", f"{1e3 * created:.1f} ms"),
            ("waking one (others sleep for it)", _spread(woken)),
            (f"a request of {TOGETHER} images, written down and flushed", _spread(steps)),
        ):
            table.add_row(what, measured)
        console.print(table)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _spread(seconds: list[float]) -> str:
    middle, high = np.percentile(seconds, (50, 99)) if seconds else (np.nan, np.nan)
    return f"{1e3 * middle:.1f} ms (99 of 100 below {1e3 * high:.1f} ms)"


def _resident() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_streams", description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=512, help="the bound on streams that are awake")
    options = parser.parse_args()
    show(Console(width=110), options.streams, options.megabytes)
