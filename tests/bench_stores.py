"""Small feature stores for the tests of the benchmark, its tables and its figures."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from trimtab.checks import random_stream
from trimtab.features import FeatureStore
from trimtab.methods.zero_shot import ZeroShot


def make_store(folder: Path, dataset: str = "small", images: int = 160, views: int = 1, seed: int = 0, **details):
    """A store whose labels are what a noisy zero-shot classifier says, so that accuracy is neither 0 nor 1."""
    classes = details.pop("classes", 6)
    task, features = random_stream(classes=classes, dim=16, views=views, images=images, seed=seed)
    random = np.random.default_rng(seed)
    noisy = features[:, 0] @ task.text_prototypes.T + random.normal(scale=0.25, size=(images, classes))
    labels = noisy.argmax(axis=1)
    labels[:classes] = np.arange(classes)
    return FeatureStore.from_arrays(
        folder, features, labels, task.text_prototypes, task.class_names, 20.0, dataset=dataset, **details
    )


@dataclass(frozen=True, kw_only=True)
class Breaks(ZeroShot):
    """A method that fails at its fifth image: after those that warm it up."""

    name: ClassVar[str] = "breaks"

    def observe(self, image, state):
        if image.position >= 4:
            raise FloatingPointError("the fifth image was too much")


@contextmanager
def small_files(size: int):
    """No file can grow beyond so many bytes, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
