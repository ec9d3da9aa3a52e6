"""ToyTower: a text tower small enough to be differentiated by hand, for checks and for authors of methods.

It needs no torch and no checkpoint. The text feature of class c under the context x_1 .. x_L is

    t_c = unit(b_c + A_c tanh(W' (x_1 + ... + x_L)))

so it moves with the context, differently for each class, and stays near the prototype b_c.
"""

import hashlib

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.text_tower import Array

LENGTH, WIDTH, HIDDEN = 3, 6, 5


class ToyTower:
    """A `trimtab.text_tower.TextTower` around given unit prototypes (C, d), with random weights."""

    def __init__(self, prototypes: Array, *, seed: int = 0, reach: float = 0.3) -> None:
        random = np.random.default_rng(seed)
        self._base = np.array(prototypes, np.float64)
        classes, dim = self._base.shape
        self._inner = random.normal(size=(WIDTH, HIDDEN)) / np.sqrt(WIDTH)
        self._outer = reach * random.normal(size=(classes, dim, HIDDEN)) / np.sqrt(HIDDEN * dim)
        self.start: Array = random.normal(scale=0.3, size=(LENGTH, WIDTH)).astype(np.float32)
        self.start.setflags(write=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and the start."""
        digest = hashlib.sha256()
        for array in (self._base, self._inner, self._outer, self.start):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def operations(self) -> float:
        """Of the two products."""
        return 2.0 * WIDTH * HIDDEN + 2.0 * self._outer.size

    def features(self, context: Array) -> Array:
        """(C, d): the unit text features of all classes under a context, (L, w) or (C, L, w)."""
        raw, _ = self._forward(context)
        return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)

    def pullback(self, context: Array, slopes: Array) -> Array:
        """The gradient at the context of a loss whose gradient at the features is `slopes` (C, d)."""
        raw, bent = self._forward(context)
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        unit, given = raw / lengths, np.asarray(slopes, np.float64)
        at_raw = (given - (given * unit).sum(axis=1, keepdims=True) * unit) / lengths
        at_bent = np.einsum("cd,cdh->ch", at_raw, self._outer)
        at_sum = (at_bent * (1 - bent**2)) @ self._inner.T  # (C, w)
        if np.ndim(context) == 2:
            at_sum = at_sum.sum(axis=0)
        return np.repeat(at_sum[..., None, :], np.shape(context)[-2], axis=-2).astype(np.float32)

    def _forward(self, context: Array) -> tuple[np.ndarray, np.ndarray]:
        """Features before they are made unit, (C, d), and what stands behind the tanh, (C, hidden)."""
        if np.ndim(context) not in (2, 3) or np.shape(context)[-1] != WIDTH:
            raise TrimtabError(f"The toy tower's contexts are (L, {WIDTH}), not {np.shape(context)}.")
        bent = np.tanh(np.asarray(context, np.float64).sum(axis=-2) @ self._inner)
        bent = np.broadcast_to(bent, (len(self._base), HIDDEN))
        return self._base + np.einsum("cdh,ch->cd", self._outer, bent), bent
