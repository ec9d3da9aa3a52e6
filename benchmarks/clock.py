"""Time as the benchmarks take it."""

import time
from collections.abc import Callable


def milliseconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, once."""
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)
