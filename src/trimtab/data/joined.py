"""Several sets of the same classes as one, each a domain: a stream of corruptions, cameras or styles."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.errors import TrimtabError


@dataclass(frozen=True, eq=False)
class JoinedImages:
    """Loads from the set that an index falls into."""

    loads: Sequence[Callable[[int], NDArray[np.uint8]]]
    starts: Sequence[int]  # the index of each set's first image

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index`, counted through all sets."""
        which = bisect_right(self.starts, index) - 1
        return self.loads[which](index - self.starts[which])


def joined(sets: Sequence[ImageSet], name: str | None = None) -> ImageSet:
    """The images of all sets, one set after another; the domains are the sets' names.

    Orders such as "domain-sequence" and "domain-mixture" then arrange them.
    """
    if not sets:
        raise TrimtabError("There are no sets to join.")
    first = sets[0]
    other = next((images for images in sets if images.class_names != first.class_names), None)
    if other is not None:
        raise TrimtabError(f"{first.name} and {other.name} have different classes and cannot be joined.")
    names = [images.name for images in sets]
    if len(set(names)) < len(names):
        raise TrimtabError(f"Two of the sets are called the same ({', '.join(names)}); each is a domain of its own.")
    lengths = [len(images) for images in sets]
    return ImageSet(
        name=name or ",".join(names),
        class_names=first.class_names,
        labels=np.concatenate([images.labels for images in sets]),
        ids=[f"{images.name}/{identity}" for images in sets for identity in images.ids],
        load=JoinedImages([images.load for images in sets], np.cumsum([0, *lengths[:-1]]).tolist()),
        domains=[images.name for images in sets for _ in range(len(images))],
        templates=first.templates,
    )
