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
* some names are near to every image. A first round asks how far text and discriminants agree; where they do not, the
  text's mean over the images, its habit, is taken off, up to all of it. What a strong text often sees is often there.

Everything starts from the text alone each time, so it is a function of the memory: nothing drifts.

Features of more than MOST_DIMENSIONS dimensions are folded to so many first. A covariance costs d^2 multiplications per
image, and a memory of 2,048 images knows no more of 1,280 dimensions than of 512: their answers are as good.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.equations import softmax
from trimtab.engine.kernels import best_of

ROUNDS = 4  # of posteriors and means; more change little
FIRST_CONFIDENCE, MOST_CONFIDENCE = 0.55, 0.9  # the text's mean confidence in the posteriors: at first, and at most
LEAST_SHRINKAGE = 0.1  # of the covariance; with fewer images than dimensions, up to one half
MOST_KAPPA = 1e4
HABIT = (
    2.0  # share of the text's habit that is taken off, per share of images that text and discriminant name otherwise
)
MOST_DIMENSIONS = 512  # of a covariance
SMALL = 96  # rows of a triangle that is inverted at once
FEW = 256  # images to find the text's mean confidence on


class _Spoken(NamedTuple):
    """What the class sums s_c = sum_i q_ic x_i under some posteriors say, whitened."""

    inverted: Array  # (C, n) or (C, d): the sums times the inverse that the whitening holds
    products: Array  # (n, C): x_i' S^-1 s_c
    squares: Array  # (C,): s_c' S^-1 s_c


class _Whitening:
    """S^-1 for S = (1 - a) X'X / n + a f I, X the n centered images: by a root of n x n or d x d, the smaller.

    With fewer images than dimensions nothing in between is d wide: with G = XX' + rI and r = a f n / (1 - a),
    X S^-1 X' = n / (1 - a) (I - r G^-1) and S^-1 X' = n / (1 - a) X' G^-1. For few classes the root serves as it is;
    for many, its square saves a product for each of `rows` to come.
    """

    def __init__(self, centered: Array, rows: int) -> None:
        images, dim = centered.shape
        shrinkage = max(LEAST_SHRINKAGE, 0.5 * dim / (dim + images))
        self._dual, self._centered = images < dim, centered
        gram = centered @ centered.T if self._dual else centered.T @ centered
        floor = shrinkage * max(float(np.trace(gram)) / (images * dim), 1e-12)
        ridge = floor * images / (1 - shrinkage)
        gram[np.diag_indices(len(gram))] += np.float32(ridge)
        root = _inverse_root(gram)
        self._factors: tuple[Array, ...] = (root.T, root) if 2 * rows < len(root) else (root.T @ root,)
        self._scale, self._ridge = np.float32(images / (1 - shrinkage)), np.float32(ridge)
        # The mean of x' S^-1 x over the images: the trace of S^-1 X'X / n.
        trace = float(np.einsum("ij,ij->", root, root))
        self.length = max((len(gram) - ridge * trace) / (1 - shrinkage), 1e-6)

    def __call__(self, posteriors: Array) -> _Spoken:
        """What the class sums say of the images and of themselves."""
        if self._dual:
            inverted = self._inverted(posteriors.T)
            products = self._scale * (posteriors - self._ridge * inverted.T)
            return _Spoken(inverted, products, np.einsum("nc,nc->c", posteriors, products))
        sums = posteriors.T @ self._centered
        inverted = self._scale * self._inverted(sums)
        return _Spoken(inverted, self._centered @ inverted.T, np.einsum("cd,cd->c", sums, inverted))

    def directions(self, said: _Spoken) -> Array:
        """(C, d): the class sums times S^-1."""
        found: Array = self._scale * (said.inverted @ self._centered) if self._dual else said.inverted
        return found

    def _inverted(self, rows: Array) -> Array:
        for factor in self._factors:
            rows = rows @ factor
        return rows


def _inverse_root(matrix: Array) -> Array:
    """The lower triangle R with R'R the inverse of a covariance, by halves: nearly all of it is matrix products.

    Cholesky's factor L and its inverse R grow together: below the first half, L = A R', and the second half is the root
    of what L does not explain. NumPy's `cholesky` and `inv` one after the other take half as long again.
    """
    size = len(matrix)
    if size <= SMALL:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)), np.float32)
    half = size // 2
    first = _inverse_root(matrix[:half, :half])
    below = matrix[half:, :half] @ first.T
    second = _inverse_root(matrix[half:, half:] - below @ below.T)
    root = np.zeros_like(matrix)
    root[:half, :half], root[half:, half:] = first, second
    root[half:, :half] = -second @ (below @ first)
    return root


def _spread(rows: Array, most: int) -> Array:
    """At most so many of the rows, evenly spread over them."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


class Classes(NamedTuple):
    """What a memory says of the classes: g(x) = weights @ x + offsets."""

    weights: Array  # (C, d)
    offsets: Array  # (C,)
    reliability: Array  # (C,): r_c, 0 for a class that nothing is known of
    habit: Array  # (C,): what is taken off the text's cosines
    agreement: float  # share of the remembered images that this text and the discriminants name alike


def fit_classes(memory: Array, cosines: Array, strength: float) -> Classes:
    """The classes' discriminants from n images (n, d) and their text cosines (n, C)."""
    images, dim = _folded(memory), memory.shape[1]
    mean = images.mean(axis=0)
    whitening = _Whitening(images - mean, (ROUNDS + 2) * cosines.shape[1])
    text = cosines - cosines.mean(axis=1, keepdims=True)
    scores, believed = _left_out(softmax(_sharpened(text, FIRST_CONFIDENCE)), whitening)
    habit = np.float32(min(1.0, HABIT * (1 - _share_alike(scores, text)))) * text.mean(axis=0)
    text = _sharpened(text - habit, FIRST_CONFIDENCE)
    posteriors = softmax(text)
    for _ in range(ROUNDS):
        scores, believed = _left_out(posteriors, whitening)
        agreement = _share_alike(scores, text)
        text = _sharpened(text, min(max(agreement, FIRST_CONFIDENCE), MOST_CONFIDENCE))
        known = softmax(text) @ believed.reliability
        posteriors = softmax(text + np.float32(strength) * known[:, None] * scores)
    said = whitening(posteriors)
    believed = _believed(posteriors, said.squares, whitening.length)
    directions = whitening.directions(said) * believed.inverse_counts[:, None]
    offsets = -believed.squares / 2 - directions @ mean
    return Classes(_unfolded(directions, dim), offsets, believed.reliability, habit, agreement)


def _folded(rows: Array) -> Array:
    """(n, MOST_DIMENSIONS): stretches of the dimensions on top of each other, every second one with its sign changed.

    A projection that costs no product: each direction keeps about its share of the length.
    """
    if rows.shape[1] <= MOST_DIMENSIONS:
        return rows
    folded = rows[:, :MOST_DIMENSIONS].copy()
    for sign, stretch in _stretches(rows.shape[1]):
        part = rows[:, stretch]
        folded[:, : part.shape[1]] += sign * part
    return folded


def _unfolded(rows: Array, dim: int) -> Array:
    """(n, dim): the rows whose products with features are those of `rows` with folded features."""
    if dim <= MOST_DIMENSIONS:
        return rows
    return np.hstack([rows, *(sign * rows[:, : stretch.stop - stretch.start] for sign, stretch in _stretches(dim))])


def _stretches(dim: int) -> Iterator[tuple[np.float32, slice]]:
    """The stretches of the dimensions after the first, and their signs."""
    for count, first in enumerate(range(MOST_DIMENSIONS, dim, MOST_DIMENSIONS)):
        yield np.float32(count % 2 * 2 - 1), slice(first, min(first + MOST_DIMENSIONS, dim))


def _left_out(posteriors: Array, whitening: _Whitening) -> tuple[Array, "_Believed"]:
    """(n, C): the discriminants of the remembered images, each image's own share left out of the class's mean."""
    said, length = whitening(posteriors), whitening.length
    believed = _believed(posteriors, said.squares, length)
    own = posteriors * believed.inverse_counts
    left = 1 - own
    products = said.products * believed.inverse_counts
    scores = (products - own * length) / left
    scores -= (believed.squares - 2 * own * products + own * own * length) / (2 * left * left)
    return scores, believed


@njit(nogil=True)
def _share_alike(scores: Array, text: Array) -> float:
    """Share of the images that text and discriminants name alike. NumPy's `argmax` is slow along few classes."""
    alike = 0
    for image in range(len(scores)):
        alike += best_of(scores[image]) == best_of(text[image])
    return alike / len(scores)


class _Believed(NamedTuple):
    """How far to believe the class means."""

    squares: Array  # (C,): m_c' S^-1 m_c
    inverse_counts: Array  # (C,): 1 / (n_c + kappa)
    reliability: Array  # (C,): r_c


def _believed(posteriors: Array, squares: Array, length: float) -> _Believed:
    """kappa, and what follows from it; `squares` are those of the class sums."""
    counts, squared = posteriors.sum(axis=0), (posteriors * posteriors).sum(axis=0)
    # Pairs of different images: what an image has in common with itself says nothing of its class.
    explained = float((squares - length * squared).sum()) / max(float((counts * counts - squared).sum()), 1e-9) / length
    share = min(max(explained, 1 / MOST_KAPPA), 0.5)
    kappa = (1 - share) / share
    inverse = (1 / (counts + kappa)).astype(np.float32)
    reliability = counts * inverse * np.minimum(1, counts / counts.mean())
    return _Believed(squares * inverse * inverse, inverse, reliability)


def _sharpened(logits: Array, confidence: float, steps: int = 8) -> Array:
    """The logits times a factor that gives them this mean confidence, nearly; a few hundred images tell it."""
    some = _spread(logits, FEW)
    below = some - some.max(axis=1, keepdims=True)
    factor = 2.0 / max(float(some.std()), 1e-9)
    for _ in range(steps):
        reached = float((1 / np.exp(np.float32(factor) * below).sum(axis=1)).mean())
        factor *= float(np.exp(2 * (confidence - reached)))
    return logits * np.float32(factor)
