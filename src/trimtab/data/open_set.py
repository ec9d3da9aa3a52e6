"""Streams with images of classes that the task does not know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.data.orders import Indices
from trimtab.errors import TrimtabError


@dataclass(frozen=True, eq=False)
class OpenSet:
    """An order, and which of its images are unknown.

    `unknown[t]` says whether the t-th image of the stream, `indices[t]`, belongs to no class of the task;
    `known_classes` are the classes that the task keeps, ascending: build its text prototypes from these only.
    """

    indices: Indices  # (T,)
    unknown: NDArray[np.bool_]  # (T,)
    known_classes: NDArray[np.int64]  # (K,)

    def task_labels(self, labels: ArrayLike) -> NDArray[np.int64]:
        """Labels in the order of the stream, renumbered to `known_classes`; -1 for unknown images."""
        original = np.asarray(labels, dtype=np.int64)[self.indices]
        position = np.searchsorted(self.known_classes, original)
        return np.where(self.unknown, -1, position).astype(np.int64)


def held_out_classes(labels: ArrayLike, share: float, *, seed: int) -> OpenSet:
    """Take away a `share` of the classes, drawn by the seed; their images stay in the shuffled stream as unknown."""
    known = np.asarray(labels, dtype=np.int64)
    if known.size and known.min() < 0:
        raise TrimtabError("Holding classes out needs a label for every image, but some images have none.")
    classes = np.unique(known)
    count = round(share * len(classes))
    if not 1 <= count <= len(classes) - 2:
        raise TrimtabError(
            f"Holding out {share} of {len(classes)} classes takes {count} away; "
            "choose a share that takes at least one and leaves at least two."
        )
    rng = np.random.default_rng(seed)
    held_out = rng.choice(classes, size=count, replace=False)
    indices = rng.permutation(len(known)).astype(np.int64)
    return OpenSet(indices, np.isin(known[indices], held_out), np.setdiff1d(classes, held_out))


def mixed_with_unknown(labels: ArrayLike, unknown_count: int, share: float, *, seed: int) -> OpenSet:
    """Mix images of another set into this one, so that a `share` of the stream is unknown.

    Indices count on: the images of this set come first, those of the other follow (`len(labels)` is its first).
    When there are too few images of one kind for the share, the other kind is cut down, never the share.
    """
    known = np.asarray(labels, dtype=np.int64)
    if not 0 < share < 1:
        raise TrimtabError(f"The share of unknown images must lie between 0 and 1, not {share}.")
    if unknown_count < 1 or len(known) < 1:
        raise TrimtabError(f"There are {len(known)} known and {unknown_count} unknown images; both must be present.")
    keep_known = min(len(known), round(unknown_count * (1 - share) / share))
    keep_unknown = min(unknown_count, round(keep_known * share / (1 - share)))
    if keep_known < 1 or keep_unknown < 1:
        raise TrimtabError(f"A share of {share} leaves no image of one kind; choose a share nearer to one half.")
    rng = np.random.default_rng(seed)
    kept = np.concatenate(
        [
            rng.choice(len(known), size=keep_known, replace=False),
            len(known) + rng.choice(unknown_count, size=keep_unknown, replace=False),
        ]
    )
    indices = rng.permutation(kept).astype(np.int64)
    return OpenSet(indices, indices >= len(known), np.unique(known[known >= 0]))
