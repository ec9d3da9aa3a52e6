"""Random streams on which float32 and float64 make the same decisions."""

from typing import Any

from trimtab.checks import random_stream
from trimtab.task import Task


def gentle_stream(**sizes: int) -> tuple[Task, Any]:
    """A random stream whose predictions are not so sure that float32 cannot tell their entropies apart.

    Sure images have entropies within a few 1e-8 of each other; which one a full cache or a choice of views keeps is
    then rounding, and the float64 oracle parts from the engine there for a reason that no test is about.
    """
    task, features = random_stream(**sizes)
    return Task(task.class_names, task.text_prototypes, 8.0), features
