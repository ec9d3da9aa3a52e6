"""Alignment: the InfoNCE loss between text and visual prototypes (Eq. 8), its gradient kept up to date write by write.

With t_c the unit texts, v_j the unit visual prototypes of the n classes present, m_jc = <v_j, t_c> / tau:

    one side:   each prototype among the texts    K_jc = softmax_c m_jc     loss  -mean_j log K_jj
    other side: each text among the prototypes    R_jc = softmax_j m_jc     loss  -mean_c log R_cc

    n tau dL/dt_c = sum_j K_jc v_j - v_c   (+ sum_j R_jc v_j - v_c)
    n tau dL/dv_j = sum_c K_jc t_c - t_j   (+ sum_c R_jc t_c - t_j)

Recomputed in full, these four sums are matrix products of C x C x d. An image changes the prototypes of a class or two,
and then the sums change so:

| sum                 | kept as          | when v_j changes                                                            |
|---------------------|------------------|-----------------------------------------------------------------------------|
| sum_c K_jc t_c      | `texts_found`    | row j only                                                                  |
| sum_j K_jc v_j      | `visuals_found`  | one item leaves the sum, another joins: one pass                            |
| sum_j R_jc v_j      | `visuals_near`   | the same, with R's denominators kept apart (`near_totals`)                  |
| sum_c R_jc t_c      | `texts_near`     | every denominator moves a little; a text's share is renewed only once its   |
|                     |                  | denominator has moved by `tolerance` (relatively) since it was last used    |

So the first three stay exact at a cost of C x d, and the last within a relative error of `tolerance`. A class that
appears for the first time changes every denominator, and a text that moves changes everything: then all is recomputed,
as it is now and then anyway, so that rounding errors cannot add up. That work waits until somebody asks for the sums
(`settle`), so an image that brings a class and then moves the text pays for it once.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Floats
from trimtab.engine.equations import softmax
from trimtab.engine.residuals import Terms, exchange

REFRESH_AFTER = 2000  # writes, each of which adds a rounding error
SHRINKS = 16.0  # a sum that has shrunk by more than this since it was computed is recomputed in full: digits are lost
HIGHEST = 1e20  # and one that has grown beyond this, before it overflows
ROWS_AT_ONCE = 64  # of the softmax: few enough to stay in a core's own memory for all passes


class Alignment:
    """The four sums for texts (C, d) and the visual prototypes that have been written so far.

    `one_sided` leaves out the second side. Arrays are indexed by prototype first, text second.
    `text_tolerance`: how far a text may move, in units of the temperature, before `move_text` recomputes
    everything; then no softmax weight is off by more than that share.
    """

    def __init__(
        self,
        text: Floats,
        temperature: float,
        *,
        one_sided: bool,
        tolerance: float = 1e-3,
        text_tolerance: float = 0.0,
        dtype: Any = np.float32,
    ) -> None:
        self.text = np.array(text, dtype)  # a copy: it may move
        self._temperature, self._one_sided = dtype(temperature), one_sided
        self._tolerance, self._text_tolerance = tolerance, text_tolerance
        classes, _ = text.shape
        self.present = np.zeros(classes, np.bool_)
        self.writes = np.zeros(1, np.int64)  # since everything was last recomputed in full
        self.stale = np.zeros(1, np.bool_)  # whether the sums wait to be recomputed in full
        self.units: Floats = np.zeros_like(self.text)
        self.texts_found: Floats = np.zeros_like(self.text)
        self.visuals_found: Floats = np.zeros_like(self.text)
        second = (0, 0) if one_sided else self.text.shape
        self.matches: Floats = np.zeros((second[0], second[0]), dtype)  # m_jc, for present j and all c
        self.visuals_near: Floats = np.zeros(second, dtype)  # times near_totals
        self.texts_near: Floats = np.zeros(second, dtype)
        self.near_peaks = np.zeros(second[0], np.float64)  # subtracted from m before exp, so that nothing overflows
        self.near_totals = np.ones(second[0], np.float64)  # R's denominators, divided by exp(near_peaks)
        self.near_heights = np.ones(second[0], np.float64)  # the largest they have been since they were recomputed
        self.used_logs = np.zeros(second[0], np.float64)  # logarithms of the denominators that texts_near was made with
        self._ahead: Alignment | None = None  # this one, settled; for who only looks

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved: all of it, so that a loaded stream continues with the same rounding errors."""
        return {name: array for name, array in vars(self).items() if not name.startswith("_")}

    def write(self, label: int, unit: Floats) -> None:
        """Give a class its visual prototype, or another one."""
        if self.stale[0] or not self.present[label] or self.writes[0] >= REFRESH_AFTER:
            self.present[label] = True
            self.units[label] = unit
            self._wait()
            return
        old = self.units[label].copy()
        old_matches, matches = (np.stack([old, unit]) / self._temperature) @ self.text.T
        self.units[label] = unit
        self.writes += 1
        lost, gained = self._choice(old_matches), self._choice(matches)
        self.texts_found[label] = gained @ self.text
        exchange(self.visuals_found, gained, unit, lost, old)
        if not self._one_sided:
            old_matches = self.matches[label].copy()
            self.matches[label] = matches
            self._exchange_near(label, old, old_matches)

    def replace_all(self, units: Floats, present: NDArray[np.bool_]) -> None:
        """Give every class its visual prototype at once, or none."""
        self.present[...], self.units[...] = present, units
        self._wait()

    def hold(self) -> Callable[[], None]:
        """Copy everything; what is returned puts it back, and forgets what was computed ahead."""
        copies = {name: array.copy() for name, array in self.arrays().items()}

        def put_back() -> None:
            self._ahead = None
            for name, array in self.arrays().items():
                array[...] = copies[name]

        return put_back

    def move_text(self, text: Floats) -> None:
        """Give every class another text prototype, unless all have moved less than `text_tolerance` allows."""
        if self._text_tolerance:
            moved = text - self.text
            if np.sqrt(np.einsum("cd,cd->c", moved, moved).max()) <= self._text_tolerance * self._temperature:
                return
        self.text[...] = text
        self._wait()

    def _wait(self) -> None:
        self.stale[0] = True
        self._ahead = None

    def settle(self) -> None:
        """Recompute every sum, if that is due. Who changes the state calls it; who looks need not."""
        if not self.stale[0]:
            return
        self.stale[0], self.writes[0] = False, 0
        self._ahead = None
        here = self._here()
        text, units = self.text[here], self.units[here]  # no copies when all classes are present
        matches = (units / self._temperature) @ text.T if self._one_sided else self._settle_near()
        for first in range(0, len(matches), ROWS_AT_ONCE):
            rows = matches[first : first + ROWS_AT_ONCE]
            rows -= rows.max(axis=1, keepdims=True)
            np.exp(rows, out=rows)
            rows /= rows.sum(axis=1, keepdims=True)
        self.texts_found[here] = matches @ text
        self.visuals_found[here] = matches.T @ units

    def _settled(self) -> "Alignment":
        """Itself, or what it will be when it is settled; nothing that is saved changes."""
        if not self.stale[0]:
            return self
        if self._ahead is None:
            ahead = copy(self)
            for name, array in self.arrays().items():
                setattr(ahead, name, array.copy())
            ahead.settle()
            self._ahead = ahead
        return self._ahead

    def _settle_near(self) -> Floats:
        """The second side; the matches (n, n) of the classes present."""
        labels = np.flatnonzero(self.present)
        self.matches[labels] = (self.units[labels] / self._temperature) @ self.text.T
        self._compute_near(labels)
        self.used_logs[labels] = np.log(self.near_totals[labels]) + self.near_peaks[labels]
        matches = self.matches[np.ix_(labels, labels)]
        shares = np.exp(matches - self.used_logs[labels])
        self.texts_near[labels] = shares.astype(self.text.dtype) @ self.text[labels]
        return matches

    def _here(self) -> slice | NDArray[np.intp]:
        """The classes present; a slice when that is all of them, which saves copying whole arrays."""
        return slice(None) if self.present.all() else np.flatnonzero(self.present)

    def text_terms(self, weight: float) -> Terms:
        """The gradient of weight x loss at the unit texts."""
        scale, found = self._scale(weight), self._settled()
        if self._one_sided:
            return [(scale, found.visuals_found), (-scale, self.units)]
        near = np.divide(scale, found.near_totals, where=self.present, out=np.zeros_like(scale), casting="same_kind")
        return [(scale, found.visuals_found), (near, found.visuals_near), (-2 * scale, self.units)]  # slope of Eq. 8

    def visual_terms(self, weight: float) -> Terms:
        """The gradient of weight x loss at the unit visual prototypes."""
        scale, found = self._scale(weight), self._settled()
        if self._one_sided:
            return [(scale, found.texts_found), (-scale, self.text)]
        return [(scale, found.texts_found), (scale, found.texts_near), (-2 * scale, self.text)]  # slope of Eq. 8

    def _scale(self, weight: float) -> Floats:
        """(C,): weight / (n tau) for the classes present, 0 for the others."""
        scale = self.present * (weight / (max(self.present.sum(), 1) * float(self._temperature)))
        return scale.astype(self.text.dtype)

    def _choice(self, matches: Floats) -> Floats:
        """(C,): softmax over the texts of the classes present, 0 elsewhere."""
        return np.asarray(softmax(np.where(self.present, matches, -np.inf)), self.text.dtype)

    def _exchange_near(self, label: int, old: Floats, old_matches: Floats) -> None:
        """The second side, for the exchanged prototype."""
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows here is recomputed in full below
            lost = np.exp(old_matches - self.near_peaks) * self.present
            gained = np.exp(self.matches[label] - self.near_peaks) * self.present
            self.near_totals += gained - lost
            dtype = self.text.dtype
            exchange(self.visuals_near, gained.astype(dtype), self.units[label], lost.astype(dtype), old)
            sound = (self.near_totals > self.near_heights / SHRINKS) & (self.near_totals < HIGHEST)
        self._compute_near(np.flatnonzero(self.present & ~sound))
        np.maximum(self.near_heights, self.near_totals, out=self.near_heights)

        logs = np.log(self.near_totals) + self.near_peaks
        moved = np.flatnonzero((np.abs(logs - self.used_logs) > self._tolerance) & self.present)
        if len(moved):
            matches = np.where(self.present[:, None], self.matches[:, moved], -np.inf)
            matches[label] = -np.inf  # its row follows
            change = np.exp(matches - logs[moved]) - np.exp(matches - self.used_logs[moved])
            self.texts_near += change.astype(dtype) @ self.text[moved]
            self.used_logs[moved] = logs[moved]
        shares = np.exp(self.matches[label] - self.used_logs) * self.present
        self.texts_near[label] = shares.astype(dtype) @ self.text

    def _compute_near(self, texts: NDArray[np.intp]) -> None:
        """Recompute some texts' sums over the prototypes."""
        if len(texts) == 0:
            return
        here = np.flatnonzero(self.present)
        matches = self.matches[np.ix_(here, texts)]
        self.near_peaks[texts] = matches.max(axis=0)
        weights = np.exp(matches - self.near_peaks[texts].astype(matches.dtype))
        self.near_totals[texts] = self.near_heights[texts] = weights.sum(axis=0, dtype=np.float64)
        self.visuals_near[texts] = weights.T @ self.units[here]
