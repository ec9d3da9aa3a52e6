"""Keel's whitened memory, image by image in double precision: every matrix written out, every own share taken out.

What MCP's parts say comes in as the classes they name (`witnesses`); the product of all parts is the fusion's business.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]


def softmax(logits: Doubles) -> Doubles:
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def between(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def evenly(rows: Doubles, most: int) -> Doubles:
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def sharpened(logits: Doubles, confidence: float) -> Doubles:
    """The logits times a factor that gives them, nearly, this mean confidence."""
    some = evenly(logits, 256)
    factor = 2 / float(some.std())
    for _ in range(8):
        reached = np.mean([softmax(factor * row).max() for row in some])
        factor *= math.exp(2 * (confidence - reached))
    return factor * logits


def folded(x: Doubles, places: int) -> Doubles:
    """The dimensions of a feature on so many places, one turn after the other, every second turn with a minus."""
    found = np.zeros(min(places, len(x)))
    for dimension, value in enumerate(x):
        turn, place = divmod(dimension, places)
        found[place] += -value if turn % 2 else value
    return found


def related(text: Doubles) -> Doubles:
    """(C, C): how the classes' means are taken to be related, from the cosines of their names less the mean name."""
    names = text - text.mean(axis=0)
    names = np.array([name / np.linalg.norm(name) for name in names])
    share = 0.95 * len(text) / (len(text) + 10)
    return (1 - share) * np.eye(len(text)) + share * names @ names.T


class Fit:
    """The classes' discriminants of a memory whose features are not folded."""

    def __init__(
        self, memory: Doubles, text: Doubles, strength: float, answers: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """`answers`: the classes that a human has said some of the images show."""
        images, dim = memory.shape
        self.answers = answers
        self.mean = memory.mean(axis=0)
        centered = memory - self.mean
        covariance = centered.T @ centered / images
        shrinkage = max(0.1, 0.5 * dim / (dim + images))
        covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / dim * np.eye(dim)
        self.precision = np.linalg.inv(covariance)
        self.relations = related(text)
        self.length = float(np.mean([x @ self.precision @ x for x in centered]))
        cosines = np.array([text @ x - (text @ x).mean() for x in memory])
        logits = sharpened(cosines, 0.55)
        self.known = 0.0  # how far it is known how often classes come
        self._discriminate(centered, np.array([softmax(row) for row in logits]), cosines)
        self.known = between((self.agreement - 0.8) / 0.15, 0, 1)
        self.habit = min(1, 2 * (1 - self.agreement)) * cosines.mean(axis=0)
        logits = sharpened(cosines - self.habit, 0.55)
        posteriors = np.array([softmax(row) for row in logits])
        for _ in range(4):
            scores = self._discriminate(centered, posteriors, logits)
            logits = sharpened(logits, between(self.agreement, 0.55, 0.9))
            for i in range(images):
                known = softmax(logits[i]) @ self.reliability
                posteriors[i] = softmax(logits[i] + strength * known * scores[i])
        self._count(centered, posteriors)

    def _discriminate(self, centered: Doubles, posteriors: Doubles, text: Doubles) -> Doubles:
        """(n, C): the discriminants of the remembered images, and how often they name what the text names."""
        self._count(centered, posteriors)
        scores = np.empty_like(posteriors)
        for i in range(len(scores)):
            for c in range(scores.shape[1]):
                scores[i, c] = self._without(centered[i], c, posteriors[i])
        self.agreement = float(np.mean(scores.argmax(axis=1) == text.argmax(axis=1)))
        return scores

    def _count(self, centered: Doubles, posteriors: Doubles) -> None:
        """Class sums and counts; kappa from the pairs of different images, for which own pairs are taken off."""
        for i, shown in self.answers.items():
            posteriors[i] = np.arange(posteriors.shape[1]) == shown
        self.counts, self.sums = posteriors.sum(axis=0), posteriors.T @ centered
        explained, pairs = 0.0, 0.0
        for c in range(len(self.counts)):
            own = float((posteriors[:, c] ** 2).sum())
            explained += float(self.sums[c] @ self.precision @ self.sums[c]) - own * self.length
            pairs += float(self.counts[c] ** 2) - own
        share = between(explained / max(pairs, 1e-9) / self.length, 1e-4, 0.5)
        self.kappa = (1 - share) / share
        self.drawn = np.linalg.inv(np.diag(self.counts) + self.kappa * np.linalg.inv(self.relations))
        self.means = self.drawn @ self.sums
        self.common = self.known * np.log((self.counts + 1) / (self.counts + 1).mean())
        not_rare = np.minimum(1, self.counts / self.counts.mean())
        self.reliability = self.counts / (self.counts + self.kappa) * not_rare

    def _without(self, x: Doubles, c: int, posterior: Doubles) -> float:
        """The discriminant of a class from which the image's own share is taken out (its length is the mean one)."""
        own, mean = float(self.drawn[c] @ posterior), self.means[c]
        along = float(x @ self.precision @ mean)
        square = float(mean @ self.precision @ mean)
        left = 1 - own
        moved_along = (along - own * self.length) / left
        moved_square = (square - 2 * own * along + own * own * self.length) / left**2
        return moved_along - moved_square / 2 + self.common[c]

    def scores(self, x: Doubles) -> Doubles:
        """(C,): the discriminants of a new image."""
        scores = [(x - self.mean) @ self.precision @ m - m @ self.precision @ m / 2 for m in self.means]
        return np.array(scores) + self.common


def run_whitened(
    features: ArrayLike,
    text_prototypes: ArrayLike,
    logits: ArrayLike,
    witnesses: ArrayLike,
    *,
    memory_slots: int,
    strength: float = 1.5,
) -> Doubles:
    """(N, C): Keel's part "whitened" of each image, given its tempered text logits and what MCP's parts name."""
    images, text = np.asarray(features, np.float64), np.asarray(text_prototypes, np.float64)
    shown, named_by = np.asarray(logits, np.float64), np.asarray(witnesses)
    fit: Fit | None = None
    ring: list[Doubles] = []
    next_fit, asked, alike, for_memory, for_text = 16, 0.0, 0.0, 0.4, 0.8
    by_chance, named_before = 0.4, np.array([-1, -1])
    found = []
    for n, (x, text_logits) in enumerate(zip(images, shown, strict=True)):
        scores = np.zeros(len(text)) if fit is None else fit.scores(x)
        weight = 0.0
        if fit is not None:
            known = float(softmax(text_logits) @ fit.reliability)
            reached = (6.5 * fit.agreement + asked * alike) / (10 + asked)
            trust = between(2 * reached / max(fit.agreement, 1e-3) - 1, 0, 1)
            witness = between((for_memory / for_text - 0.85) / 0.2, 0, 1)
            beyond_chance = between(((for_memory - by_chance) / (1 - by_chance) - 0.4) / 0.1, 0, 1)
            weight = strength * known * trust * (witness + (1 - witness) * 0.25 * beyond_chance)
        found.append(softmax((weight if weight >= 1e-3 else 0.0) * scores))

        recent = min(n, 200) + 20
        best = int(text_logits.argmax())
        for_text += (float(np.mean(named_by[n] == best)) - for_text) / recent
        if fit is not None:
            remembered = int(scores.argmax())
            for_memory += (float(np.mean(named_by[n] == remembered)) - for_memory) / recent
            by_chance += (float(np.mean(named_before == remembered)) - by_chance) / recent
            asked = min(asked + 1, 100)
            fresh = int((text @ x - fit.habit).argmax())
            alike += (float(fresh == remembered) - alike) / asked
        named_before = named_by[n]
        ring.append(x)
        if n + 1 == next_fit:
            held = ring[-memory_slots:]
            turn = (n + 1) % memory_slots if n + 1 > memory_slots else 0
            fit = Fit(np.roll(np.array(held), turn, axis=0), text, strength)  # in the ring's order
            next_fit += min(max(1, int(0.3 * (n + 1))), memory_slots // 2)
            if next_fit >= memory_slots and memory_slots % 512 == 0:
                next_fit = round(next_fit / 512) * 512
    return np.array(found)
