"""Class means in whitened feature space, from a memory of unlabeled images: the arithmetic of `WhitenedMemory`.

One covariance S of all images, shrunk toward a multiple of the identity, whitens the features. Class c's mean comes
from soft posteriors q_ic over the n remembered images x_i (centered at the memory's mean):

    m = A s,   s_c = sum_i q_ic x_i                          (relations.py; without relations s_c / (n_c + kappa))
    g_c(x) = m_c' S^-1 x - m_c' S^-1 m_c / 2                 the Gaussian discriminant
    q_ic = softmax_c(text_ic + k r_i g_c(x_i))               with the image's own share left out of m_c

* kappa is not set but found (empirical Bayes): pairs of different images of one class tell which share B of the
  whitened length the classes explain, and kappa = (1 - B) / B. Means that explain nothing shrink to nothing.
* r_i is how well the classes are known that the text finds plausible for the image: sum_c p_ic r_c, with
  r_c = n_c / (n_c + kappa), less for classes that are rarer than most. What relations tell does not count here.
* the text's sharpness in q is the agreement of the text's class with the discriminant's.
* where a human has said what an image shows, q_i is that, in every round.
* some names are near to every image. A first round asks how far text and discriminants agree; where they do not, the
  text's mean over the images, its habit, is taken off, up to all of it. What a strong text often sees is often there:
  where they nearly always agree, classes that are seen more often are taken to be more common, log n_c in g_c.

Everything starts from the text alone each time, so it is a function of the memory: nothing drifts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.few_classes import across, gathered
from trimtab.engine.kernels import ramp
from trimtab.engine.relations import Draw, Relations
from trimtab.engine.roots import inverse_root, times_inverse
from trimtab.engine.rounds import Means, begin, evidence, find_better, take_habit_off
from trimtab.engine.stretches import Seen

ROUNDS = 4  # of posteriors and means; more change little
LEAST_SHRINKAGE = 0.1  # of the covariance; with fewer images than dimensions, up to one half
STRONG = (
    0.8,
    0.95,
)  # share of images that text and discriminants name alike: how often classes come is not yet, is known
NO_ANSWER = -1  # nobody has said what an image shows


class _Said(NamedTuple):
    """What weighted sums of the images say, whitened: class sums under posteriors, or the means that come of them."""

    shares: Array  # (C, n): the weights of the images
    sums: Array | None  # (C, d); None: with fewer images than dimensions nobody asks
    inverted: Array  # (C, n) or (C, d): the sums times the inverse that the whitening holds
    squares: Array  # (C,): of the sums, s_c' S^-1 s_c


class _Whitening:
    """S^-1 for S = (1 - a) X'X / n + a f I, X the n centered images: by a root of n x n or d x d, the smaller.

    With fewer images than dimensions nothing in between is d wide: with G = XX' + rI and r = a f n / (1 - a),
    X S^-1 X' = n / (1 - a) (I - r G^-1) and S^-1 X' = n / (1 - a) X' G^-1. With more, images stay as they are, and
    their mean is taken off what is said of them. For few classes the root serves as it is; for many, its square saves
    a product for each of `rows` to come.
    """

    def __init__(self, seen: Seen, rows: int) -> None:
        images, dim = seen.images.shape
        shrinkage = max(LEAST_SHRINKAGE, 0.5 * dim / (dim + images))
        self._dual, self._mean = seen.scatter is None, seen.mean
        self._images: Array = seen.images - seen.mean if seen.scatter is None else seen.images
        gram: Array = self._images @ self._images.T if seen.scatter is None else seen.scatter.copy()
        floor = shrinkage * max(float(np.trace(gram)) / (images * dim), 1e-12)
        ridge = floor * images / (1 - shrinkage)
        gram[np.diag_indices(len(gram))] += np.float32(ridge)
        root = inverse_root(gram)
        self._root, self._inverse = root, None if 2 * rows < len(root) else root.T @ root
        self._scale, self._ridge = np.float32(images / (1 - shrinkage)), np.float32(ridge)
        # The mean of x' S^-1 x over the images: the trace of S^-1 X'X / n.
        trace = float(np.vdot(root, root))
        self.length = max((len(gram) - ridge * trace) / (1 - shrinkage), 1e-6)

    def said(self, posteriors: Array) -> _Said:
        """What the class sums under posteriors (C, n) say."""
        if self._dual:
            return self._squared(posteriors, None, self._inverted(posteriors))
        counts: Array = posteriors.sum(axis=1)
        sums = gathered(posteriors, self._images) - counts[:, None] * self._mean
        return self._squared(posteriors, sums, self._scale * self._inverted(sums))

    def means(self, said: _Said, draw: Draw) -> _Said:
        """What the means say that come of class sums."""
        sums = None if said.sums is None else draw(said.sums)
        return self._squared(draw(said.shares), sums, draw(said.inverted))

    def _squared(self, shares: Array, sums: Array | None, inverted: Array) -> _Said:
        if sums is None:
            squares = self._scale * np.einsum("cn,cn->c", shares, shares - self._ridge * inverted)
        else:
            squares = np.einsum("cd,cd->c", sums, inverted)
        return _Said(shares, sums, inverted, squares)

    def products(self, said: _Said) -> Array:
        """(C, n): what they say of the images, x_i' S^-1 s_c."""
        if self._dual:
            return self._scale * (said.shares - self._ridge * said.inverted)
        found = across(said.inverted, self._images)
        found -= (said.inverted @ self._mean)[:, None]
        return found

    def directions(self, said: _Said) -> Array:
        """(C, d): the sums times S^-1."""
        found: Array = self._scale * (said.inverted @ self._images) if self._dual else said.inverted
        return found

    def _inverted(self, rows: Array) -> Array:
        return times_inverse(rows, self._root) if self._inverse is None else rows @ self._inverse


class Classes(NamedTuple):
    """What a memory says of the classes: g(x) = weights @ x + offsets."""

    weights: Array  # (C, d)
    offsets: Array  # (C,)
    reliability: Array  # (C,): r_c, 0 for a class that nothing is known of
    habit: Array  # (C,): what is taken off the text's cosines
    agreement: float  # share of the remembered images that this text and the discriminants name alike


def fit_classes(seen: Seen, strength: float, answers: NDArray[np.int64], relations: Relations) -> Classes:
    """The classes' discriminants from n images, whose features may be folded.

    `answers` (n,): the class that a human has said an image shows, or NO_ANSWER.
    """
    whitening = _Whitening(seen, (ROUNDS + 2) * len(seen.cosines))
    text, posteriors = begin(seen.cosines)
    answered = np.flatnonzero(answers != NO_ANSWER)
    _believe_humans(posteriors, answered, answers)
    _, means = _means(whitening, posteriors, relations, 0.0)
    habit, agreement, says, posteriors = take_habit_off(text, means, whitening.length)
    known = ramp(agreement, *STRONG)
    _believe_humans(posteriors, answered, answers)
    for _ in range(ROUNDS):
        _, means = _means(whitening, posteriors, relations, known)
        agreement = find_better(text, says, means, whitening.length, strength, posteriors)
        _believe_humans(posteriors, answered, answers)
    said, means = _means(whitening, posteriors, relations, known)
    directions = whitening.directions(said)
    offsets = np.asarray(means.common - means.squares / 2 - directions @ seen.mean, np.float32)
    return Classes(directions, offsets, means.reliability, habit, agreement)


def _means(whitening: _Whitening, posteriors: Array, relations: Relations, known: float) -> tuple[_Said, Means]:
    """The class means under posteriors (C, n), and what they say of the images.

    `known` is how far it is known how often classes come, 0 to 1.
    """
    sums = whitening.said(posteriors)
    counts, kappa = evidence(posteriors, sums.squares, whitening.length)
    said = whitening.means(sums, relations.draw(counts, kappa))
    reliability = counts / (counts + np.float32(kappa)) * np.minimum(1, counts / counts.mean())
    common = np.float32(known) * np.log((counts + 1) / (counts + 1).mean())
    return said, Means(said.shares, whitening.products(said), said.squares, common, reliability)


def _believe_humans(posteriors: Array, answered: NDArray[np.intp], answers: NDArray[np.int64]) -> None:
    """Make the posteriors (C, n) of the images that a human has answered sure."""
    posteriors[:, answered] = 0
    posteriors[answers[answered], answered] = 1
