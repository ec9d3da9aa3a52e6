"""A text tower small enough for tests, in NumPy: each class bends the mean of the context in its own way."""

import hashlib
from dataclasses import dataclass

import numpy as np

from trimtab import Task
from trimtab.engine.arrays import unit_rows


@dataclass(frozen=True, eq=False)
class ToyTower:
    """feature_c = unit(base_c + tanh(mean(context) * gate_c) W); class-specific contexts have a mean of their own."""

    base: np.ndarray  # (C, d)
    gates: np.ndarray  # (C, w)
    mixing: np.ndarray  # (w, d)
    start: np.ndarray  # (L, w) or (C, L, w)

    @property
    def fingerprint(self):
        return hashlib.sha256(self.base.tobytes() + self.gates.tobytes() + self.mixing.tobytes()).hexdigest()

    def features(self, context):
        return unit_rows(self._raw(context))

    def pullback(self, context, slopes):
        raw, slopes = self._raw(context), slopes.astype(np.float64)
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        units = raw / lengths
        tangent = (slopes - (slopes * units).sum(axis=1, keepdims=True) * units) / lengths
        bent = np.tanh(context.mean(axis=-2, dtype=np.float64) * self.gates)
        means = (tangent @ self.mixing.T) * (1 - bent**2) * self.gates  # (C, w)
        rows = means if context.ndim == 3 else means.sum(axis=0)
        return (np.ones_like(context) * rows[..., None, :] / context.shape[-2]).astype(np.float32)

    def _raw(self, context):
        return self.base + np.tanh(context.mean(axis=-2, dtype=np.float64) * self.gates) @ self.mixing


def with_tower(task, *, seed=0, length=4, width=6, class_specific=False):
    """The task with a toy tower around its text prototypes."""
    random = np.random.default_rng(seed)
    gates, mixing = random.normal(size=(task.classes, width)), random.normal(size=(width, task.dim))
    shape = (task.classes, length, width) if class_specific else (length, width)
    start = random.normal(scale=0.05, size=shape).astype(np.float32)
    tower = ToyTower(task.text_prototypes.astype(np.float64), gates, 0.3 * mixing, start)
    return Task(task.class_names, task.text_prototypes, task.logit_scale, tower)


def permuted(task, order):
    """The same task with its classes in another order."""
    tower = task.text_tower
    start = tower.start[order] if tower.start.ndim == 3 else tower.start
    other = ToyTower(tower.base[order], tower.gates[order], tower.mixing, start)
    return Task([task.class_names[c] for c in order], task.text_prototypes[order], task.logit_scale, other)
