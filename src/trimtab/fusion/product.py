"""The product of an image's parts, and what a stream learns from it: the compiled walk of `AutoWeights` (auto.py)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of, confidence_of, exp, highest_of, log, softmax_in_place
from trimtab.fusion import loops
from trimtab.fusion.context import expect, learn_context
from trimtab.fusion.foretelling import IN_ALL, Names, held_counts, learn_names, several_named
from trimtab.fusion.loudness import AS_SURE, AS_WITHOUT, first_log_power, learn_loudness
from trimtab.fusion.sharpness import LOG_FACTOR, learn_sharpness

POWER = 1.5  # what is said is this much surer when it meets what is expected, or a long run could drown what comes next
LEAST = np.float32(1e-30)  # probabilities below are taken as this: their logarithms would drown the others


class Learned(NamedTuple):
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
def held_now(learned: Learned) -> float:
    """How far what is held of the stream counts now."""
    named = learned.names_counts[IN_ALL]
    return held_counts(learned.shares, learned.names_usual, learned.names_shares, learned.names_figures, named)


@njit(nogil=True)
def _several_named(learned: Learned) -> float:
    """How far the text has named several classes by now."""
    return several_named(learned.names_figures, learned.names_counts[IN_ALL], learned.names_usual.shape[1])


@njit(nogil=True)
def _learn_names(learned: Learned, text: Array, product: Array) -> None:
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
def _sharper(learned: Learned) -> np.float32:
    """What a strong text adds to its force."""
    return np.float32(np.exp(learned.sharpness[LOG_FACTOR]) - 1)


@njit(fastmath=VECTORIZE, nogil=True)
def _hear_text(logits: Array, sharper: np.float32, heard: Array, said: Doubles) -> None:
    """Write (C,), twice: what the text says to the context, in the unit of its best class. No memory has a part in it:
    one that calls a new class by an old name would make a run of the old one.
    """
    highest, factor = highest_of(logits), np.float32(POWER) * (np.float32(1) + sharper)
    for c in range(len(heard)):
        heard[c] = exp(factor * (logits[c] - highest))
    for c in range(len(said)):
        said[c] = heard[c]


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


class Loudness(NamedTuple):
    """How sure an image's product is of its best class, and at which power."""

    log_power: float  # that makes it as sure as it should be
    confidence: float  # at that power
    without: float  # without what comes weighed; NaN where nobody asks
    as_without: float  # with it, at the power that should make it as sure as without


@njit(fastmath=VECTORIZE, nogil=True)
def _combine(
    weighed: Array,
    habits: Doubles,
    force: Doubles,
    held: float,
    learned: Learned,
    expected: Doubles,
    logs: Array,
    unbiased: Array,
    fused: Array,
    answer: Array,
    sure: float,
    asks_without: bool,
) -> Loudness:
    """One image's parts and what was expected as one prediction. Written: the parts' logits (P, C), less their means,
    and without their habits; their product (C,), which the stream learns from; and the answer (C,), which also knows
    the context and is as loud as it should be. The context has no part in how loud that is: who says how sure answers
    should be knows of none.
    """
    loops.weigh(logs, habits, learned.habit, learned.habit_weight, force, unbiased, fused)
    sharper, counted = _sharper(learned), np.float32(held)
    for c in range(len(fused)):
        fused[c] += sharper * logs[0, c]
    without, as_without = np.nan, np.nan
    if asks_without:
        without = confidence_of(fused, np.float32(1))
    for c in range(len(fused)):
        fused[c] += counted * weighed[c]
    quieter = np.exp(held * learned.loudness[AS_WITHOUT])
    if asks_without:
        as_without = confidence_of(fused, np.float32(quieter))
    log_power = learned.loudness[AS_SURE]
    if learned.seen[0] == 0 and not np.isnan(sure):
        log_power = first_log_power(fused, sure)
    louder, context_power = np.float32(np.exp(log_power)), np.float32(POWER * quieter)
    confidence = confidence_of(fused, louder)
    for c in range(len(fused)):
        answer[c] = louder * (fused[c] + log(np.float32(expected[c])) / context_power)
    softmax_in_place(fused)
    softmax_in_place(answer)
    return Loudness(float(log_power), confidence, without, as_without)


@njit(nogil=True)
def _learn(
    parts: tuple[Array, ...],
    row: int,
    logs: Array,
    unbiased: Array,
    fused: Array,
    learned: Learned,
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
def walk(
    parts: tuple[Array, ...],
    sure: Doubles,
    shares: Doubles,
    habits: Doubles,
    learned: Learned,
    usual_margin: float,
    comes_weighed: bool,
    learned_from: NDArray[np.bool_],
    answers: Array,
) -> None:
    """Combine each image of a block and learn from it before the next; `sure` is NaN where nobody knows.

    `answers` (B, C) come as the logarithms of what is weighed already, if anything is (`comes_weighed`): fresh memory
    costs as much as a sum.
    """
    images, classes = answers.shape
    logs = np.empty((len(parts), classes), np.float32)  # of one image: it stays in the processor's cache
    unbiased, fused = np.empty_like(logs), np.empty_like(answers[0])
    weighed, product = np.empty_like(fused), np.empty_like(fused)
    heard, said, expected = np.empty_like(fused), np.empty(classes), np.ones(classes)
    for row in range(images):
        held = held_now(learned)
        trusted = loops.trusts(learned.agreement, classes)
        force = fully = loops.forces(shares, learned.spread, trusted, learned.seen[0])
        if held < 1:
            force = loops.forces(shares, learned.spread, trusted * held, learned.seen[0])
        if len(learned.recent):
            expect(learned.sums, learned.recent, learned.shares, _several_named(learned), expected)
        _logs(parts, row, logs)
        answer = answers[row]
        weighed[:] = answer
        loudness = _combine(
            weighed,
            habits,
            force,
            held,
            learned,
            expected,
            logs,
            unbiased,
            fused,
            answer,
            sure[row],
            comes_weighed and len(learned.recent) > 0,
        )
        if not learned_from[row]:
            continue
        if len(learned.recent):
            _hear_text(logs[0], _sharper(learned), heard, said)
            learn_context(learned.sums, learned.recent, learned.shares, expected, said, float(learned.seen[0]))
            if held < 1:
                _as_if_held(weighed, fully, _sharper(learned), logs, unbiased, product)
            _learn_names(learned, parts[0][row], product if held < 1 else fused)
        learned.loudness[AS_SURE] = loudness.log_power
        learn_loudness(learned.loudness, AS_SURE, loudness.confidence, sure[row], learned.seen[0])
        learn_loudness(learned.loudness, AS_WITHOUT, loudness.as_without, loudness.without, learned.seen[0])
        _learn(parts, row, logs, unbiased, fused, learned, usual_margin)
