"""Label sets of tens of thousands of classes and more: top-k answers, and a shortlist of the classes that matter.

A probability for each of 21,000 classes is 84 KB per image; five names are 40 bytes. And of a million classes a set of
images can show only those that are near to one of its images, which exact products with the texts find. (No approximate
index: images are out of the distribution of texts that such an index is built on, and its recall falls to 0.4.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.engine import inputs
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.stream import BLOCK, Stream
from trimtab.task import Task

CLASSES_AT_ONCE = 65_536  # of a shortlist's products
IMAGES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class TopPredictions:
    """What a method says of N images: the best k classes, best first, and their probabilities, (N, k) both."""

    labels: NDArray[np.int64]
    probabilities: Array

    def __len__(self) -> int:
        return len(self.labels)


def run_top(stream: Stream, features: inputs.FeatureRows | ArrayLike, k: int = 5) -> TopPredictions:
    """`stream.run`, of which only the best `k` classes of each image are kept: memory does not grow with C x N."""
    arguments.instance("stream", stream, Stream, "a trimtab.Stream")
    arguments.whole("k", k, least=1, most=stream.task.classes)
    rows, images = stream._checked(features)  # all of them: what is refused has taught nothing
    labels, probabilities = np.empty((images, k), np.int64), np.empty((images, k), np.float32)
    for start in range(0, images, BLOCK):
        found = stream.run(rows[start : start + BLOCK], keep_parts=False).probabilities
        _take_best(found, labels[start : start + BLOCK], probabilities[start : start + BLOCK])
    return TopPredictions(labels, probabilities)


def _take_best(found: Array, labels: NDArray[np.int64], probabilities: Array) -> None:
    """The highest of each row, best first and of equals the first class; k scans beat a partition while k is small."""
    rows = np.arange(len(found))
    for place in range(labels.shape[1]):
        labels[:, place] = found.argmax(axis=1)
        probabilities[:, place] = found[rows, labels[:, place]]
        found[rows, labels[:, place]] = -1


def shortlist(task: Task, features: ArrayLike, k: int = 256) -> tuple[Task, NDArray[np.int64]]:
    """A task of the classes that are among the `k` nearest texts of at least one image; and their numbers in `task`.

    Products are exact, and computed in pieces, so a million classes are no problem. `features` is (N, d), or (N, V, d)
    of which the plain views count. What is left out can never be predicted.
    """
    arguments.instance("task", task, Task, "a trimtab.Task")
    arguments.whole("k", k, least=1)
    rows = arguments.numbers("features", features)
    if rows.ndim not in (2, 3) or rows.shape[-1] != task.dim or 0 in rows.shape:
        raise TrimtabError(f"features must have the shape (images, {task.dim}), not {rows.shape}.")
    plain = rows[:, 0] if rows.ndim == 3 else rows
    inputs.refuse_bad_rows(plain, task.dim)
    wanted = np.zeros(task.classes, bool)
    for start in range(0, len(plain), IMAGES_AT_ONCE):
        wanted[_nearest(plain[start : start + IMAGES_AT_ONCE].astype(np.float32), task.text_prototypes, k)] = True
    chosen = np.flatnonzero(wanted)
    if len(chosen) < 2:
        raise TrimtabError(f"A task needs at least two classes, but the shortlist holds {len(chosen)}; raise k.")
    names = [task.class_names[c] for c in chosen.tolist()]
    return Task(names, task.text_prototypes[chosen], task.logit_scale), chosen


def _nearest(images: Array, text: Array, k: int) -> NDArray[np.int64]:
    """(n, k) or fewer: the classes of highest product with each image."""
    best: NDArray[np.int64] = np.zeros((len(images), 0), np.int64)
    values: Array = np.zeros((len(images), 0), np.float32)
    for start in range(0, len(text), CLASSES_AT_ONCE):
        products = images @ text[start : start + CLASSES_AT_ONCE].T
        numbers = np.broadcast_to(np.arange(start, start + products.shape[1]), products.shape)
        best, values = np.concatenate([best, numbers], axis=1), np.concatenate([values, products], axis=1)
        if best.shape[1] > k:
            kept = np.argpartition(values, -k, axis=1)[:, -k:]
            best, values = np.take_along_axis(best, kept, axis=1), np.take_along_axis(values, kept, axis=1)
    return best
