"""The few formulas every method shares, on float64 vectors."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


def as_images(views: ArrayLike) -> list[list[Vector]]:
    """(N, V, d) features as a list of images, each a list of V vectors; view 0 is the plain image."""
    return [list(image) for image in np.asarray(views, dtype=np.float64)]


def as_vectors(rows: ArrayLike) -> list[Vector]:
    """(C, d) features as a list of C vectors."""
    return list(np.asarray(rows, dtype=np.float64))


def dot(left: Vector, right: Vector) -> float:
    return float(np.dot(left, right))


def normalized(vector: Vector) -> Vector:
    return vector / math.sqrt(dot(vector, vector))


def mean_vector(vectors: Sequence[Vector]) -> Vector:
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total / len(vectors)


def logits_of(feature: Vector, text: Sequence[Vector], logit_scale: float) -> Vector:
    """z_c = s <f, t_c>."""
    return np.array([logit_scale * dot(feature, prototype) for prototype in text])


def softmax(logits: Vector) -> Vector:
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum(), dtype=np.float64)


def entropy(probabilities: Vector) -> float:
    """In nats."""
    total = 0.0
    for probability in probabilities:
        if probability > 0.0:
            total -= float(probability) * math.log(float(probability))
    return total


def relative_entropy(nats: float, classes: int) -> float:
    """The field's "normalized" entropy: nats over log2 C. It lies in [0, ln 2], and all thresholds are in that unit."""
    return nats / math.log2(classes)


def affinity(similarity: float, alpha: float, beta: float) -> float:
    """A(x) = alpha exp(-beta (1 - x))."""
    return alpha * math.exp(-beta * (1.0 - similarity))


def confident_views(view_logits: Sequence[Vector], fraction: float) -> list[int]:
    """Indices of the views of lowest entropy: floor(fraction V) of them, but at least one."""
    entropies = [entropy(softmax(logits)) for logits in view_logits]
    by_entropy = sorted(range(len(entropies)), key=lambda view: entropies[view])
    return by_entropy[: max(1, int(fraction * len(entropies)))]


def single_precision_vote(view_logits: Sequence[Vector]) -> Vector:
    """The mean of the views' probabilities, computed in float32 as the released programs do.

    Two sure views of two minds give half the vote to each of two classes. In float32 that is an exact tie, which the
    first class wins; in float64 rounding noise of 1e-8 would decide it, and the streams would part from there.
    """
    total = np.zeros(len(view_logits[0]), dtype=np.float32)
    for logits in view_logits:
        single = logits.astype(np.float32)
        powers = np.exp(single - single.max())
        total += powers / powers.sum()
    return (total / np.float32(len(view_logits))).astype(np.float64)


def stacked(rows: Sequence[Vector], classes: int) -> NDArray[np.float64]:
    """The rows of a stream as (N, C), for N = 0 too."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), classes)


def logits_and_probabilities(rows: Sequence[Vector], classes: int) -> dict[str, NDArray[np.float64]]:
    return {"logits": stacked(rows, classes), "probabilities": stacked([softmax(row) for row in rows], classes)}
