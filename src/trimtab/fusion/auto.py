"""Weights without labels: a product of experts that speak with equal force, less their habits, as far as they agree.

Parts differ in how loudly they speak (retrieval's logits spread ten times as far as the text's) and in what they say
whatever the image is (some classes are near to everything). Neither is evidence. So from the unlabeled stream itself,
for any number of parts of which the first is the text's prediction:

* habit: the mean of a part's logits for a class, over the images that are not of this class, is taken off;
* force: a part is scaled so that its logits spread as far as the text's, among the classes that are plausible;
* trust: a part counts as far as its favorite class is probable to the part before it, compared with how probable
  that finds a class drawn from itself; both over the last images only, so that a bank gone wrong is noticed;
* sharpness: a text that shows itself to be strong speaks louder (sharpness.py);
* context: what the text has just been saying is expected again, as far as it has shown that images come in runs
  (context.py);
* held: parts that hold images count as far as the text, or all parts together, have named several classes, and in runs
  as far as they show the runs more clearly than the text does (foretelling.py).

How sure the product is depends on what made it: the answer is raised to a power that makes its mean confidence what
the stream's owner can expect, where somebody knows (loudness.py). This changes no label.

Nothing is known at the first image, which gets the text's prediction. docs/weights-without-labels.md has the study.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import NOT_LEARNED
from trimtab.engine.compiled import code_for
from trimtab.errors import TrimtabError
from trimtab.fusion import loops
from trimtab.fusion.context import Context
from trimtab.fusion.foretelling import Foretelling
from trimtab.fusion.loudness import new_loudness
from trimtab.fusion.product import LEAST, Learned, held_now, walk
from trimtab.fusion.sharpness import TextSharpness

# How much of a part's habit is taken off: all of it where a part asks only the images it keeps. What the text often
# sees is often there, so its habit stays; parts that hold the text too (MCP's prototypes, DMN's memory) lie between.
HABITS = {"text": 0.0, "prototype": 0.25, "dynamic": 0.5}


class AutoWeights:
    """Weighs the parts of a prediction by what the stream shows of them, without labels.

    Combining costs a few passes over the C classes; what is learned of P parts takes (P + 1) C + 3 P + 4 numbers. The
    parts named in `weighed` come weighed by their method already; where images come in runs, they count less, as all do
    that hold images. Where the order may say something (`ordered`), the context and names take 5 C more.
    """

    def __init__(
        self, parts: Sequence[str], classes: int, weighed: Sequence[str] = (), *, ordered: bool = True
    ) -> None:
        self.parts = tuple(name for name in parts if name not in weighed)
        if len(self.parts) < 2 or self.parts[0] != "text":
            raise TrimtabError(
                "fusion 'auto' weighs parts beside a first part 'text', but this prediction has "
                f"{', '.join(parts)}; give weights."
            )
        count = len(self.parts)
        self._weighed = tuple(weighed)
        # The text counts half: where a part holds the text's logits too, it would count twice.
        self.shares = np.array([0.5] + [1.0] * (count - 1))
        self.habits = np.array([HABITS.get(name, 1.0) for name in self.parts])
        self.seen = np.zeros(1, np.int64)
        self.habit = np.zeros((count, classes))  # sums of logits over the images not of the class
        self.habit_weight = np.zeros(classes)  # how many images these are
        self.spread = np.ones(count)  # mean variance of the logits over plausible classes; begins alike
        self.agreement = np.zeros((count - 1, 2))  # of each part with the one before, and of that with itself
        self.sharpness = TextSharpness(classes)
        self.context = Context(classes, ordered=ordered)
        self.names = Foretelling(classes, ordered=ordered)
        self.loudness = new_loudness()
        self._learned = Learned(
            self.habit,
            self.habit_weight,
            self.spread,
            self.agreement,
            self.seen,
            self.sharpness.figures,
            self.context.sums,
            self.context.recent,
            self.context.shares,
            self.names.usual,
            self.names.lately,
            self.names.counts,
            self.names.shares,
            self.names.figures,
            self.loudness,
        )
        self._code: Callable[..., None] | None = None  # of the loop that walks a block

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.context.cut()
        self.names.cut()

    def combine(self, parts: Mapping[str, Array], sure: float | None = None, *, comes_next: bool = False) -> Array:
        """(C,) probabilities of one image: the weighted geometric mean of its parts, habits taken off.

        What was just there counts only for an image that comes next, not for one that somebody asks about.
        """
        if comes_next:
            return self._walk_one(parts, sure, NOT_LEARNED)
        recent = self.context.recent.copy()
        self.context.cut()
        try:
            return self._walk_one(parts, sure, NOT_LEARNED)
        finally:
            self.context.recent[:] = recent

    def step(self, parts: Mapping[str, Array], sure: float | None = None) -> Array:
        """The same, and learn habits, spreads, agreement, the text's strength and loudness from the image."""
        return self._walk_one(parts, sure, None)

    def _walk_one(self, parts: Mapping[str, Array], sure: float | None, learned: NDArray[np.bool_] | None) -> Array:
        told = None if sure is None else np.array([sure])
        answer: Array = self.walk({name: part[None] for name, part in parts.items()}, told, learned)[0]
        return answer

    def walk(
        self, parts: Mapping[str, Array], sure: Doubles | None = None, learned: NDArray[np.bool_] | None = None
    ) -> Array:
        """(B, C): `step` for the images of a block, one after the other; of those not `learned` from, the answer."""
        given, answers = self._given(parts)
        wanted = np.full(len(answers), np.nan) if sure is None else np.ascontiguousarray(sure, np.float64)
        marks = np.ones(len(answers), np.bool_) if learned is None else np.ascontiguousarray(learned, np.bool_)
        arguments = (
            given,
            wanted,
            self.shares,
            self.habits,
            self._learned,
            self.sharpness.usual_margin,
            bool(self._weighed),
            marks,
            answers,
        )
        self._code = self._code or code_for(walk, *arguments)
        self._code(*arguments)
        return answers

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {
            "seen": self.seen,
            "habit": self.habit,
            "habit_weight": self.habit_weight,
            "spread": self.spread,
            "agreement": self.agreement,
            **self.sharpness.arrays(),
            **self.context.arrays(),
            **self.names.arrays(),
            "loudness": self.loudness,
        }

    def report(self) -> dict[str, float]:
        """The exponent of each part in the product now, the trust in the last, the share of images in runs, and how far
        what is held counts.
        """
        found = {name: float(value) for name, value in zip(self.parts, self._forces(), strict=True)}
        found["text"] += self.sharpness.factor - 1
        return {**found, "trust": float(self._trusts()[-1]), "context": self.context.in_runs, "held": self._held()}

    def _trusts(self) -> NDArray[np.float64]:
        return loops.trusts(self.agreement, self.habit.shape[1])

    def _forces(self) -> NDArray[np.float64]:
        return loops.forces(self.shares, self.spread, self._trusts() * self._held(), self.seen[0])

    def _held(self) -> float:
        return float(held_now(self._learned))

    def _given(self, parts: Mapping[str, Array]) -> tuple[tuple[Array, ...], Array]:
        """(B, C) each: the parts to be weighed; and the logarithms of the others, summed."""
        given = tuple(np.ascontiguousarray(parts[name], np.float32) for name in self.parts)
        weighed: Array = np.zeros(given[0].shape, np.float32)
        for name in self._weighed:
            weighed += np.log(np.maximum(parts[name], LEAST))
        return given, weighed
