"""Class means in whitened feature space, from a memory of unlabeled images: the arithmetic of `WhitenedMemory`.

One covariance S of all images, shrunk toward a multiple of the identity, whitens the features. Class c's mean comes
from soft posteriors q_ic over the n remembered images x_i (centered at the memory's mean):

    m_c = sum_i q_ic x_i / (n_c + kappa),   n_c = sum_i q_ic
    g_c(x) = m_c' S^-1 x - m_c' S^-1 m_c / 2                 the Gaussian discriminant
    q_ic = softmax_c(text_ic + k r_i g_c(x_i))               with the image's own share left out of m_c

* kappa is not set but found (empirical Bayes): pairs of different images of one class tell which share B of the
  whitened length the classes explain, and kappa = (1 - B) / B. Means that explain nothing shrink to nothing.
* r_i is how well the classes are known that the text finds plausible for the image: sum_c p_ic r_c, with
  r_c = n_c / (n_c + kappa), less for classes that are rarer than most.
* the text's sharpness in q is the agreement of the text's class with the discriminant's.

Everything starts from the text alone each time, so it is a function of the memory: nothing drifts.
"""

from typing import NamedTuple

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.equations import softmax

ROUNDS = 4  # of posteriors and means; more change little
FIRST_CONFIDENCE, MOST_CONFIDENCE = 0.55, 0.9  # the text's mean confidence in the posteriors: at first, and at most
LEAST_SHRINKAGE = 0.1  # of the covariance; with fewer images than dimensions, up to one half
MOST_KAPPA = 1e4
SMALL = 96  # rows of a triangle that is inverted at once
FEW = 256  # images to find the text's mean confidence on


class _Whitening:
    """S^-1 for S = (1 - a) X'X / n + a f I, X the n centered images: by a root of n x n or d x d, the smaller.

    For few classes the root serves as it is; for many, its square saves a product for each of `rows` to come.
    """

    def __init__(self, centered: Array, rows: int) -> None:
        images, dim = centered.shape
        shrinkage = max(LEAST_SHRINKAGE, 0.5 * dim / (dim + images))
        wide = images < dim
        gram = centered @ centered.T if wide else centered.T @ centered
        floor = shrinkage * max(float(np.trace(gram)) / (images * dim), 1e-12)
        ridge = floor * images / (1 - shrinkage)
        gram[np.diag_indices(len(gram))] += np.float32(ridge)
        root = _inverse_of_lower(np.linalg.cholesky(gram))
        self._factors: tuple[Array, ...] = (root.T, root) if 2 * rows < len(root) else (root.T @ root,)
        self._scale = np.float32(images / (1 - shrinkage))
        self._centered, self._floor = (centered if wide else None), np.float32(floor)
        # The mean of x' S^-1 x over the images: the trace of S^-1 X'X / n.
        trace = float(np.einsum("ij,ij->", root, root))
        self.length = max((len(gram) - ridge * trace) / (1 - shrinkage), 1e-6)

    def __call__(self, rows: Array) -> Array:
        """(m, d): each row times S^-1."""
        if self._centered is None:
            return np.asarray(self._inverted(rows) * self._scale, np.float32)
        seen = self._inverted(rows @ self._centered.T) @ self._centered
        return np.asarray((rows - seen) / self._floor, np.float32)

    def _inverted(self, rows: Array) -> Array:
        for factor in self._factors:
            rows = rows @ factor
        return rows


def _inverse_of_lower(factor: Array) -> Array:
    """The inverse of a lower triangle, by halves: nearly all of it is matrix products.

    With Cholesky's factor this is the inverse of a covariance in less than half the time of `np.linalg.inv`, which does
    not know that the matrix is symmetric.
    """
    size = len(factor)
    if size <= SMALL:
        return np.asarray(np.linalg.inv(factor), np.float32)
    half = size // 2
    upper, lower = _inverse_of_lower(factor[:half, :half]), _inverse_of_lower(factor[half:, half:])
    inverse = np.zeros_like(factor)
    inverse[:half, :half], inverse[half:, half:] = upper, lower
    inverse[half:, :half] = -lower @ (factor[half:, :half] @ upper)
    return inverse


def _spread(rows: Array, most: int) -> Array:
    """At most so many of the rows, evenly spread over them."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


class Classes(NamedTuple):
    """What a memory says of the classes: g(x) = weights @ x + offsets."""

    weights: Array  # (C, d)
    offsets: Array  # (C,)
    reliability: Array  # (C,): r_c, 0 for a class that nothing is known of
    agreement: float  # share of the remembered images that text and discriminant name alike


def fit_classes(memory: Array, cosines: Array, strength: float) -> Classes:
    """The classes' discriminants from n images (n, d) and their text cosines (n, C)."""
    mean = memory.mean(axis=0)
    centered = memory - mean
    whitening = _Whitening(centered, (ROUNDS + 1) * cosines.shape[1])
    length = whitening.length
    text = cosines - cosines.mean(axis=1, keepdims=True)
    text *= np.float32(_sharpness(text, FIRST_CONFIDENCE))
    named = text.argmax(axis=1)
    posteriors = softmax(text)
    for _ in range(ROUNDS):
        classes = _means(centered, posteriors, whitening)
        own = posteriors * classes.inverse_counts  # the image's share in the class's mean
        left = 1 - own
        products = centered @ classes.directions.T
        scores = (products - own * length) / left
        scores -= (classes.squares - 2 * own * products + own * own * length) / (2 * left * left)
        agreement = float((scores.argmax(axis=1) == named).mean())
        text *= np.float32(_sharpness(text, min(max(agreement, FIRST_CONFIDENCE), MOST_CONFIDENCE)))
        known = softmax(text) @ classes.reliability
        posteriors = softmax(text + np.float32(strength) * known[:, None] * scores)
    classes = _means(centered, posteriors, whitening)
    offsets = -classes.squares / 2 - classes.directions @ mean
    return Classes(classes.directions, offsets, classes.reliability, agreement)


class _Means(NamedTuple):
    directions: Array  # (C, d): S^-1 m_c
    squares: Array  # (C,): m_c' S^-1 m_c
    inverse_counts: Array  # (C,): 1 / (n_c + kappa)
    reliability: Array  # (C,): r_c


def _means(centered: Array, posteriors: Array, whitening: _Whitening) -> _Means:
    """The class means under these posteriors, and how far to believe them."""
    counts, squared = posteriors.sum(axis=0), (posteriors * posteriors).sum(axis=0)
    sums = posteriors.T @ centered
    directions, length = whitening(sums), whitening.length
    squares = np.einsum("cd,cd->c", sums, directions)
    # Pairs of different images: what an image has in common with itself says nothing of its class.
    explained = float((squares - length * squared).sum()) / max(float((counts * counts - squared).sum()), 1e-9) / length
    share = min(max(explained, 1 / MOST_KAPPA), 0.5)
    kappa = (1 - share) / share
    inverse = (1 / (counts + kappa)).astype(np.float32)
    reliability = counts * inverse * np.minimum(1, counts / counts.mean())
    return _Means(directions * inverse[:, None], squares * inverse * inverse, inverse, reliability)


def _sharpness(logits: Array, confidence: float, steps: int = 8) -> float:
    """The factor that gives these logits this mean confidence, nearly; a few hundred images tell it."""
    logits = _spread(logits, FEW)
    below = logits - logits.max(axis=1, keepdims=True)
    factor = 2.0 / max(float(logits.std()), 1e-9)
    for _ in range(steps):
        reached = float((1 / np.exp(np.float32(factor) * below).sum(axis=1)).mean())
        factor *= float(np.exp(2 * (confidence - reached)))
    return factor
