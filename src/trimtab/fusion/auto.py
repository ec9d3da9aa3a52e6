"""Weights without labels: a product of experts that speak with equal force, less their habits, as far as they agree.

Parts differ in how loudly they speak (retrieval's logits spread ten times as far as the text's) and in what they say
whatever the image is (some classes are near to everything). Neither is evidence. So from the unlabeled stream itself:

* habit: the mean of a part's logits for a class, over the images that are not of this class, is taken off;
* force: a part is scaled so that its logits spread as far as the text's, among the classes that are plausible;
* trust: retrieval counts as far as its favorite class is probable to the prototype part, compared with how probable
  that finds a class drawn from itself; both over the last images only, so that a bank gone wrong is noticed.

Nothing is known at the first image, which gets the text's prediction. docs/weights-without-labels.md has the study.
Parts beyond these three come weighed by their method already: they are multiplied to the product as they are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays
from trimtab.errors import TrimtabError
from trimtab.fusion import loops

PARTS = ("text", "prototype", "retrieval")
LEAST = np.float32(1e-30)  # probabilities below are taken as this: their logarithms would drown the others


class AutoWeights:
    """Weighs text, prototypes and retrieval by what the stream shows of them, without labels.

    Combining costs a few passes over the C classes; what is learned takes 4 C + 6 numbers.
    """

    # The text counts half, because the prototype part holds the text's logits too.
    shares = np.array([0.5, 1.0, 1.0])
    # How much of a part's habit is taken off. The text's habit is half an opinion: what it often sees is often there.
    habits = np.array([0.5, 0.5, 1.0])

    def __init__(self, parts: Sequence[str], classes: int) -> None:
        if tuple(parts[: len(PARTS)]) != PARTS:
            raise TrimtabError(
                f"fusion 'auto' weighs {', '.join(PARTS)}, but this prediction has {', '.join(parts)}; give weights."
            )
        self._weighed = tuple(parts[len(PARTS) :])
        self.seen = np.zeros(1, np.int64)
        self.habit = np.zeros((len(PARTS), classes))  # sums of logits over the images not of the class
        self.habit_weight = np.zeros(classes)  # how many images these are
        self.spread = np.ones(len(PARTS))  # mean variance of the logits over plausible classes; begins alike
        self.agreement = np.zeros(2)  # of retrieval with the prototypes, and of the prototypes with themselves

    def combine(self, parts: Mapping[str, Array]) -> Array:
        """(C,) probabilities of one image: the weighted geometric mean of its parts, habits taken off."""
        return self._combined(parts).fused

    def step(self, parts: Mapping[str, Array]) -> Array:
        """The same, and learn habits, spreads and agreement from the image."""
        logs, unbiased, fused = self._combined(parts)
        loops.learn(
            logs,
            unbiased,
            fused,
            parts["prototype"],
            self.habit,
            self.habit_weight,
            self.spread,
            self.agreement,
            self.seen,
        )
        return fused

    def walk(self, parts: Mapping[str, Array]) -> Array:
        """(B, C): `step` for the images of a block, one after the other."""
        images = len(next(iter(parts.values())))
        return np.stack([self.step({name: part[row] for name, part in parts.items()}) for row in range(images)])

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {
            "seen": self.seen,
            "habit": self.habit,
            "habit_weight": self.habit_weight,
            "spread": self.spread,
            "agreement": self.agreement,
        }

    def report(self) -> dict[str, float]:
        """The exponent of each part in the product now, and the trust in retrieval."""
        found = {name: float(value) for name, value in zip(PARTS, self._forces(), strict=True)}
        return {**found, "trust": self._trust()}

    def _trust(self) -> float:
        return loops.trust(self.agreement, self.habit.shape[1])

    def _forces(self) -> NDArray[np.float64]:
        return loops.forces(self.shares, self.spread, self._trust(), self.seen[0])

    def _combined(self, parts: Mapping[str, Array]) -> "_Combined":
        classes = self.habit.shape[1]
        logs: Array = np.empty((len(PARTS), classes), np.float32)
        for row, name in zip(logs, PARTS, strict=True):
            np.maximum(parts[name], LEAST, out=row)
        np.log(logs, out=logs)
        unbiased: Array = np.empty_like(logs)
        fused: Array = np.empty(classes, np.float32)
        loops.weigh(logs, self.habits, self.habit, self.habit_weight, self._forces(), unbiased, fused)
        for name in self._weighed:
            fused += np.log(np.maximum(parts[name], LEAST))
            fused -= fused.max()
        np.exp(fused, out=fused)
        fused /= fused.sum()
        return _Combined(logs, unbiased, fused)


class _Combined(NamedTuple):
    """One image's way through `combine`."""

    logs: Array  # (3, C): the parts' logits
    unbiased: Array  # (3, C): without their habits
    fused: Array  # (C,)
