"""Weights without labels: a product of experts that speak with equal force, less their habits, as far as they agree.

Parts differ in how loudly they speak (retrieval's logits spread ten times as far as the text's) and in what they say
whatever the image is (some classes are near to everything). Neither is evidence. So from the unlabeled stream itself,
for any number of parts of which the first is the text's prediction:

* habit: the mean of a part's logits for a class, over the images that are not of this class, is taken off;
* force: a part is scaled so that its logits spread as far as the text's, among the classes that are plausible;
* trust: a part counts as far as its favorite class is probable to the part before it, compared with how probable
  that finds a class drawn from itself; both over the last images only, so that a bank gone wrong is noticed;
* sharpness: a text that shows itself to be strong speaks louder (sharpness.py);
* context: what was just there is expected again, as far as the stream has shown to come in runs (context.py);
* held: parts that hold images count as far as the text has named several classes, and in runs as far as they show the
  runs more clearly than the text does (foretelling.py).

How sure the product is depends on what made it: the answer is raised to a power that makes its mean confidence what
the stream's owner can expect, where somebody knows (loudness.py). This changes no label.

Nothing is known at the first image, which gets the text's prediction. docs/weights-without-labels.md has the study.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import NOT_LEARNED
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.kernels import VECTORIZE, best_of, confidence_of, log, softmax_in_place
from trimtab.errors import TrimtabError
from trimtab.fusion import loops
from trimtab.fusion.context import Context, expect, learn_context
from trimtab.fusion.foretelling import IN_ALL, Foretelling, Names, held_counts, learn_names
from trimtab.fusion.loudness import LOG_POWER, first_log_power, learn_loudness, new_loudness
from trimtab.fusion.sharpness import LOG_FACTOR, TextSharpness, learn_sharpness

POWER = 1.5  # answers are this much surer when they meet what is expected, or a long run could drown what comes next
LEAST = np.float32(1e-30)  # probabilities below are taken as this: their logarithms would drown the others

# How much of a part's habit is taken off: all of it where a part asks only the images it keeps. What the text often
# sees is often there, so its habit stays; parts that hold the text too (MCP's prototypes, DMN's memory) lie between.
HABITS = {"text": 0.0, "prototype": 0.25, "dynamic": 0.5}


class AutoWeights:
    """Weighs the parts of a prediction by what the stream shows of them, without labels.

    Combining costs a few passes over the C classes; what is learned of P parts takes (P + 1) C + 3 P + 3 numbers. The
    parts named in `weighed` come weighed by their method already; where images come in runs, they count less, as all do
    that hold images. Where the order may say something (`ordered`), the context takes (K + 1) C more for K horizons.
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
        self._learned = _Learned(
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
            marks,
            answers,
        )
        self._code = self._code or code_for(_walk, *arguments)
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
        return float(_held(self._learned))

    def _given(self, parts: Mapping[str, Array]) -> tuple[tuple[Array, ...], Array]:
        """(B, C) each: the parts to be weighed; and the logarithms of the others, summed."""
        given = tuple(np.ascontiguousarray(parts[name], np.float32) for name in self.parts)
        weighed: Array = np.zeros(given[0].shape, np.float32)
        for name in self._weighed:
            weighed += np.log(np.maximum(parts[name], LEAST))
        return given, weighed


class _Learned(NamedTuple):
    """What `AutoWeights` has learned, as compiled loops take it."""

    habit: Doubles
    habit_weight: Doubles
    spread: Doubles
    agreement: Doubles
    seen: NDArray[np.int64]
    sharpness: Doubles
    sums: Doubles
    recent: Doubles
    shares: Doubles
    names_usual: Doubles
    names_lately: Names
    names_counts: Names
    names_shares: Doubles
    names_figures: Doubles
    loudness: Doubles


@njit(fastmath=VECTORIZE, nogil=True)
def _logs(parts: tuple[Array, ...], row: int, logs: Array) -> None:
    """The logarithms (P, C) of one image's parts."""
    for part in range(len(parts)):
        given, out = parts[part][row], logs[part]
        for c in range(len(out)):
            out[c] = log(max(given[c], LEAST))


@njit(nogil=True)
def _held(learned: _Learned) -> float:
    """How far what is held of the stream counts now."""
    named, classes = learned.names_counts[IN_ALL], learned.names_usual.shape[1]
    return held_counts(learned.shares, learned.names_shares, learned.names_figures, named, classes)


@njit(nogil=True)
def _learn_names(learned: _Learned, text: Array, product: Array) -> None:
    """Take in what the text (C,) and the product of all parts (C,) name an image."""
    learn_names(
        learned.names_usual,
        learned.names_lately,
        learned.names_counts,
        learned.names_shares,
        learned.names_figures,
        best_of(text),
        best_of(product),
    )


@njit(nogil=True)
def _sharper(learned: _Learned) -> np.float32:
    """What a strong text adds to its force."""
    return np.float32(np.exp(learned.sharpness[LOG_FACTOR]) - 1)


@njit(fastmath=VECTORIZE, nogil=True)
def _as_if_held(
    weighed: Array, force: Doubles, sharper: np.float32, logs: Array, unbiased: Array, product: Array
) -> None:
    """Write the product (C,) as it would be if what is held counted fully."""
    for c in range(len(product)):
        product[c] = sharper * logs[0, c] + weighed[c]
    for part in range(len(force)):
        factor, row = np.float32(force[part]), unbiased[part]
        for c in range(len(product)):
            product[c] += factor * row[c]


@njit(fastmath=VECTORIZE, nogil=True)
def _combine(
    weighed: Array,
    habits: Doubles,
    force: Doubles,
    held: float,
    learned: _Learned,
    expected: Doubles,
    logs: Array,
    unbiased: Array,
    fused: Array,
    answer: Array,
    sure: float,
) -> tuple[float, float]:
    """One image's parts and what was expected as one prediction. Written: the parts' logits (P, C), less their means,
    and without their habits; their product (C,), which the stream learns from; and the answer (C,), which also knows
    the context and is as loud as it should be. Returned: the log power that makes it so, and how probable it makes the
    product's best class. The context has no part in that: who says how sure answers should be knows of none.
    """
    loops.weigh(logs, habits, learned.habit, learned.habit_weight, force, unbiased, fused)
    sharper, counted = _sharper(learned), np.float32(held)
    for c in range(len(fused)):
        fused[c] += sharper * logs[0, c] + counted * weighed[c]
    log_power = learned.loudness[LOG_POWER]
    if learned.seen[0] == 0 and not np.isnan(sure):
        log_power = first_log_power(fused, sure)
    louder = np.float32(np.exp(log_power))
    confidence = confidence_of(fused, louder)
    for c in range(len(fused)):
        answer[c] = louder * (fused[c] + log(np.float32(expected[c])) / np.float32(POWER))
    softmax_in_place(fused)
    softmax_in_place(answer)
    return float(log_power), confidence


@njit(nogil=True)
def _learn(
    parts: tuple[Array, ...],
    row: int,
    logs: Array,
    unbiased: Array,
    fused: Array,
    learned: _Learned,
    usual_margin: float,
) -> None:
    """Learn from one image, combined."""
    learn_sharpness(learned.sharpness, parts[0][row], logs, learned.seen[0], usual_margin)
    loops.learn(
        parts,
        row,
        logs,
        unbiased,
        fused,
        learned.habit,
        learned.habit_weight,
        learned.spread,
        learned.agreement,
        learned.seen,
    )


@njit(nogil=True)
def _walk(
    parts: tuple[Array, ...],
    sure: Doubles,
    shares: Doubles,
    habits: Doubles,
    learned: _Learned,
    usual_margin: float,
    learned_from: NDArray[np.bool_],
    answers: Array,
) -> None:
    """Combine each image of a block and learn from it before the next; `sure` is NaN where nobody knows.

    `answers` (B, C) come as the logarithms of what is weighed already: fresh memory costs as much as a sum.
    """
    images, classes = answers.shape
    logs = np.empty((len(parts), classes), np.float32)  # of one image: it stays in the processor's cache
    unbiased, fused = np.empty_like(logs), np.empty_like(answers[0])
    weighed, product = np.empty_like(fused), np.empty_like(fused)
    said, expected = np.empty(classes), np.ones(classes)
    for row in range(images):
        held = _held(learned)
        trusted = loops.trusts(learned.agreement, classes)
        force = fully = loops.forces(shares, learned.spread, trusted, learned.seen[0])
        if held < 1:
            force = loops.forces(shares, learned.spread, trusted * held, learned.seen[0])
        if len(learned.recent):
            expect(learned.sums, learned.recent, learned.shares, expected)
        _logs(parts, row, logs)
        answer = answers[row]
        weighed[:] = answer
        log_power, confidence = _combine(
            weighed, habits, force, held, learned, expected, logs, unbiased, fused, answer, sure[row]
        )
        if not learned_from[row]:
            continue
        if len(learned.recent):
            for c in range(len(said)):
                said[c] = fused[c] * np.sqrt(fused[c])  # to the power of POWER
            learn_context(learned.sums, learned.recent, learned.shares, expected, said, float(learned.seen[0]))
            if held < 1:
                _as_if_held(weighed, fully, _sharper(learned), logs, unbiased, product)
            _learn_names(learned, parts[0][row], product if held < 1 else fused)
        learned.loudness[LOG_POWER] = log_power
        learn_loudness(learned.loudness, confidence, sure[row], learned.seen[0])
        _learn(parts, row, logs, unbiased, fused, learned, usual_margin)
