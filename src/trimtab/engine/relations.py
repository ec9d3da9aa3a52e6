"""Relations: classes whose names are alike look alike, so what is known of one tells something of the other.

Class means m_c, in whitened space, come from few images each. Before any image is seen, they are taken to be related as
the names are: their covariance over the classes is a multiple of

    R = (1 - rho) I + rho K,    K_cd the cosine of two text prototypes, each less the mean of all

and of the noise of one image the multiple is 1 / kappa. Given the class sums s = sum_i q_i x_i under posteriors with
counts n, the means are then (Gaussian regression, or Kriging, over the names)

    m = A s,    A = (diag(n) + kappa R^-1)^-1            with rho = 0: m_c = s_c / (n_c + kappa)

so a class of few images is drawn toward what its neighbors by name make likely, not to the mean of all. How much of
R the names explain grows with their number: three names say little about how names relate.

K is kept as coordinates B (C, r) of the names, r at most RANK; what they leave out is the class's own, in the diagonal.
With v_c = 1 / (d_c n_c + kappa), where d = 1 - rho |b_c|^2 is the diagonal that remains,

    A = diag(d v) + Z Z',    Z = sqrt(kappa) diag(v) B (I / rho + B' diag(n v) B)^(-1/2)
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.roots import inverse_root

MOST = 0.95  # rho with very many names
HALF = 10.0  # names at which it is half of this
RANK = 256  # coordinates of a name

Draw = Callable[[Array], Array]


class Relations:
    """How the classes of a text (C, d) are related."""

    def __init__(self, text: Array) -> None:
        self._share = np.float32(MOST * len(text) / (len(text) + HALF))
        self._names = _coordinates(text)
        self._own: Array = 1 - self._share * np.einsum("cr,cr->c", self._names, self._names)

    def draw(self, counts: Array, kappa: float) -> Draw:
        """What makes means (C, k) of sums (C, k), A times them, for classes that have been seen so often (C,)."""
        known = np.asarray(1 / (self._own * counts + np.float32(kappa)), np.float32)
        explained: Array = (self._names * (counts * known)[:, None]).T @ self._names
        explained[np.diag_indices(len(explained))] += 1 / self._share
        together: Array = np.float32(np.sqrt(kappa)) * known[:, None] * (self._names @ inverse_root(explained).T)
        alone: Array = self._own * known
        if len(counts) <= RANK:
            whole: Array = together @ together.T
            whole[np.diag_indices(len(whole))] += alone
            return partial(np.matmul, whole)
        return lambda sums: together @ (together.T @ sums) + alone[:, None] * sums


def _coordinates(text: Array) -> Array:
    """(C, r): the names' main coordinates; the rows' products are their cosines, less what further ones would add."""
    names = text - text.mean(axis=0)
    names /= np.maximum(np.linalg.norm(names, axis=1, keepdims=True), 1e-12)
    rank = min(*names.shape, RANK)
    if len(names) <= names.shape[1]:
        lengths, axes = np.linalg.eigh(names @ names.T)
        return np.ascontiguousarray(axes[:, -rank:] * np.sqrt(np.maximum(lengths[-rank:], 0)), np.float32)
    return np.ascontiguousarray(names @ np.linalg.eigh(names.T @ names)[1][:, -rank:], np.float32)
