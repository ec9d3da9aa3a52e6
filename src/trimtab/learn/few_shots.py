"""A few labeled images of every class, drawn by a seed."""

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.errors import TrimtabError


def few_shots(image_set: ImageSet, shots: int, seed: int) -> NDArray[np.int64]:
    """The indices of `shots` images of each class, or one sentence on the class that has fewer."""
    if len(image_set.class_names) < 2 or not (image_set.labels >= 0).any():
        raise TrimtabError(f"{image_set.name} has no labels, and prompts are learned from labeled images.")
    if shots < 1:
        raise TrimtabError(f"At least one shot per class is needed, not {shots}.")
    random = np.random.default_rng([seed, shots])
    chosen = []
    for number, name in enumerate(image_set.class_names):
        of_class = np.flatnonzero(image_set.labels == number)
        if len(of_class) < shots:
            raise TrimtabError(
                f"{image_set.name} has {len(of_class)} labeled images of the class {name!r}, fewer than the {shots} "
                "shots asked for; ask for fewer, or add images."
            )
        chosen.append(random.choice(of_class, shots, replace=False))
    return np.concatenate(chosen)
