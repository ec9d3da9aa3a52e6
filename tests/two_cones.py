"""Features as CLIP has them: texts in one narrow cone, images in another."""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import unit_rows
from trimtab.task import Task


def two_cones(images: int) -> tuple[Task, NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """A task of six classes, images of them, their labels, and a hundred images of none of them."""
    random = np.random.default_rng(0)
    classes, dim = 6, 64
    content = unit_rows(random.normal(size=(classes, dim)))
    image_axis, text_axis = unit_rows(random.normal(size=(2, dim)))
    text = unit_rows(text_axis + 0.5 * content)
    labels = random.integers(classes, size=images)
    noise = unit_rows(random.normal(size=(images, dim)))
    shown = unit_rows(image_axis + 0.35 * content[labels] + 0.5 * noise)
    others = unit_rows(image_axis + 0.5 * unit_rows(random.normal(size=(100, dim))) - 0.6 * text.mean(axis=0))
    return Task([f"class {c}" for c in range(classes)], text, 60.0), shown, labels, others
