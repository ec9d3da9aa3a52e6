"""What adapting to one image costs, by each method's own formula."""

from trimtab.engine.equations import confident_count
from trimtab.engine.operations import Size
from trimtab.methods.base import Method


def gflops_per_image(method: Method, *, classes: int, dim: int, views: int) -> float | None:
    """10^9 operations per image, or None for a method that does not count them."""
    kept = confident_count(views, method.view_fraction)
    operations = method.operations(Size(classes, dim, views, kept))
    return None if operations is None else operations / 1e9
