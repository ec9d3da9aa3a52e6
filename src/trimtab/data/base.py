"""ImageSet: what every data set looks like to the rest of trimtab."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNLABELED = -1


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with names, and labels where there are any.

    `load(i)` decodes image i into (H, W, 3) RGB bytes; `labels[i]` is a class index or UNLABELED;
    `ids[i]` names the image for people (a path, or "test_batch/17"); `domains[i]` names its style where there is one.
    """

    name: str
    class_names: tuple[str, ...]
    labels: NDArray[np.int64]
    ids: Sequence[str]
    load: Callable[[int], NDArray[np.uint8]]
    domains: Sequence[str] | None = None
    templates: str = "photo"  # the name of a template set in trimtab.prompts

    def __len__(self) -> int:
        return len(self.ids)
