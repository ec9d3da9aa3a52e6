"""What adapting to one image costs, by each method's own formula."""

from dataclasses import replace

from trimtab.engine.equations import confident_count
from trimtab.engine.operations import Size
from trimtab.methods.base import Method
from trimtab.task import Task


def gflops_per_image(
    method: Method,
    *,
    classes: int,
    dim: int,
    views: int,
    text_pass: float | None = None,
    image_pass: float | None = None,
) -> float | None:
    """10^9 operations per image, or None for a method that does not count them.

    A pass is what the encoder takes for all classes' texts, and for one view.
    """
    return _gflops(
        method, Size(classes, dim, views, confident_count(views, method.view_fraction), text_pass, image_pass)
    )


def gflops_on(method: Method, task: Task, views: int) -> tuple[float | None, float | None]:
    """The same on a task, with the passes of its own encoder; and how much of it is the text encoder's."""
    text_pass, image_pass = _passes(task)
    size = Size(task.classes, task.dim, views, confident_count(views, method.view_fraction), text_pass, image_pass)
    whole = _gflops(method, size)
    if whole is None or text_pass is None:
        return whole, None
    without = _gflops(method, replace(size, text_pass=0.0))
    return whole, None if without is None else whole - without


def _gflops(method: Method, size: Size) -> float | None:
    operations = method.operations(size)
    return None if operations is None else operations / 1e9


def _passes(task: Task) -> tuple[float | None, float | None]:
    if task.image_prompts is not None:
        return task.image_prompts.text_operations, task.image_prompts.image_operations
    return (None if task.text_tower is None else task.text_tower.operations), None
