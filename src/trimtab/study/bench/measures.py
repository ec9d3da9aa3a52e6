"""What a run costs besides its time: memory, and the wait for one image."""

import time
from pathlib import Path

import numpy as np

from trimtab.engine.inputs import FeatureRows
from trimtab.stream import Stream

STEPS = 100  # images that are timed alone
PERCENTILES = (50, 90, 99)
CLEAR_PEAK = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def forget_peak_memory() -> None:
    """Let the next `peak_memory_mb` speak of what comes now; where the system cannot, it speaks of the process."""
    try:
        CLEAR_PEAK.write_text("5")
    except OSError:
        return


def peak_memory_mb() -> float:
    """The most memory that the process has held since `forget_peak_memory`, in MB."""
    try:
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        import psutil

        memory = psutil.Process().memory_info()
        return float(getattr(memory, "peak_wset", memory.rss)) / 2**20


def step_times(stream: Stream, features: FeatureRows, steps: int = STEPS) -> dict[str, float]:
    """Percentiles in ms of `step` on single images, with caches as full as the stream left them."""
    rows = np.asarray(features[0 : min(steps, features.shape[0])])
    times = []
    for views in rows:
        start = time.perf_counter()
        stream.step(views)
        times.append(1000 * (time.perf_counter() - start))
    return {f"p{percent}": round(float(np.percentile(times, percent)), 4) for percent in PERCENTILES}


def state_mb(stream: Stream) -> float:
    """The size of everything that the stream keeps, in MB."""
    return sum(array.nbytes for array in stream.arrays().values()) / 2**20
