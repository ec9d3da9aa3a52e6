"""How good predictions are: pure functions of probabilities (N, C) and labels (N,).

Images without a label (-1) count nowhere. Large arrays are read in pieces, so nothing here doubles a run's memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

CALIBRATION_BINS = 20  # as the test-time calibration papers (C-TPT) have it
PIECE = 4096  # images looked at together


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence against accuracy in bins of equal width (l, u]: what a reliability diagram shows."""

    confidence: Floats  # (bins,) mean top probability; 0 in an empty bin
    accuracy: Floats  # (bins,)
    count: NDArray[np.int64]  # (bins,)

    @property
    def expected_error(self) -> float:
        """ECE: the gap between confidence and accuracy, averaged over images."""
        return float(self.count @ np.abs(self.confidence - self.accuracy) / self.count.sum())


@dataclass(frozen=True, eq=False)
class Scores:
    """Everything that a run's record says about its predictions."""

    accuracy: float
    top5: float
    ece: float
    nll: float
    brier: float
    recall: Floats  # (C,), NaN for a class without images
    reliability: Reliability
    correct: NDArray[np.bool_]  # (labeled images,), in the order of the stream


def score(probabilities: Array, labels: Labels, bins: int = CALIBRATION_BINS) -> Scores:
    """All metrics in one pass over the predictions."""
    labels = arguments.class_indices("labels", labels)
    arguments.whole("bins", bins, least=1)
    if np.ndim(arguments.numbers("probabilities", probabilities)) != 2:
        raise TrimtabError(f"probabilities must have the shape (images, classes), not {np.shape(probabilities)}.")
    if len(labels) != len(probabilities):
        raise TrimtabError(f"There are {len(labels)} labels for {len(probabilities)} predictions; give one for each.")
    known = np.flatnonzero(labels >= 0)
    if not len(known):
        raise TrimtabError("None of the images has a label, so nothing can be scored; use a labeled set.")
    images, classes = len(known), probabilities.shape[1]
    if labels.max() >= classes:
        raise TrimtabError(f"A label is {labels.max()}, but the predictions are of {classes} classes.")
    correct = np.empty(images, np.bool_)
    within5 = np.empty(images, np.bool_)
    confidence = np.empty(images, np.float64)
    log_loss = brier = 0.0
    for start, rows, true in _pieces(probabilities, labels, known):
        piece = slice(start, start + len(rows))
        of_label = rows[np.arange(len(rows)), true]
        correct[piece] = rows.argmax(axis=1) == true
        # Of equal probabilities the earlier class comes first, as it does for the best one.
        earlier = np.arange(classes) < true[:, None]
        ahead = (rows > of_label[:, None]) | ((rows == of_label[:, None]) & earlier)
        within5[piece] = ahead.sum(axis=1) < 5
        confidence[piece] = rows.max(axis=1)
        log_loss -= float(np.log(np.maximum(of_label, np.finfo(np.float32).tiny), dtype=np.float64).sum())
        brier += float(np.einsum("nc,nc->", rows, rows, dtype=np.float64) + (1 - 2 * of_label.astype(np.float64)).sum())
    reliability = reliability_of(confidence, correct, bins)
    return Scores(
        accuracy=float(correct.mean()),
        top5=float(within5.mean()),
        ece=reliability.expected_error,
        nll=log_loss / images,
        brier=brier / images,
        recall=recall_per_class(correct, labels[known], classes),
        reliability=reliability,
        correct=correct,
    )


def recall_per_class(correct: NDArray[np.bool_], labels: Labels, classes: int) -> Floats:
    """(C,): the share of each class's images that are right; NaN for a class without images."""
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[correct], minlength=classes)
    return np.divide(right, count, out=np.full(classes, np.nan), where=count > 0)


def reliability_of(confidence: Floats, correct: NDArray[np.bool_], bins: int = CALIBRATION_BINS) -> Reliability:
    """Group images by confidence into `bins` bins (l, u] of equal width."""
    which = np.clip(np.ceil(np.asarray(confidence, np.float64) * bins).astype(np.int64) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    filled = np.maximum(count, 1)
    return Reliability(
        confidence=np.bincount(which, weights=confidence, minlength=bins) / filled,
        accuracy=np.bincount(which, weights=correct, minlength=bins) / filled,
        count=count,
    )


def tempered(probabilities: Array, factor: float) -> Array:
    """The probabilities with their logarithms multiplied by a factor: above 1 they are surer, below 1 less sure."""
    logits = factor * np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    exponentials: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def temperature_of(probabilities: Array, labels: Labels) -> float:
    """The factor for `tempered` that makes these answers the likeliest. NEEDS LABELS, of a few dozen images."""
    known = np.asarray(labels) >= 0
    factors = np.exp(np.linspace(np.log(0.02), np.log(50), 81))
    rows, truth = np.asarray(probabilities)[known], np.asarray(labels)[known]
    losses = [-np.log(np.maximum(tempered(rows, f)[np.arange(len(rows)), truth], 1e-12)).mean() for f in factors]
    return float(factors[int(np.argmin(losses))])


def separation(scores: Floats, correct: NDArray[np.bool_]) -> float:
    """AUROC: how often a right answer has the higher score than a wrong one; ties count half, NaN where one lacks."""
    right, wrong = np.sort(np.asarray(scores)[correct]), np.asarray(scores)[~correct]
    if not len(right) or not len(wrong):
        return float("nan")
    below, upto = np.searchsorted(right, wrong, "left"), np.searchsorted(right, wrong, "right")
    return float(1 - (below + upto).mean() / (2 * len(right)))


def accuracy_along(correct: NDArray[np.bool_], points: int = 100) -> tuple[NDArray[np.int64], Floats]:
    """(images seen, accuracy so far) at up to `points` places along the stream, the last one at its end."""
    ends = np.unique(np.linspace(len(correct) / points, len(correct), points).round().astype(np.int64))
    ends = ends[ends > 0]
    so_far: Floats = np.cumsum(correct)[ends - 1] / ends
    return ends, so_far


def compactness(features: Array, labels: Labels) -> float:
    """The inverse of the mean distance between an image's feature (N, d) and the mean feature of its class.

    Needs labels: it describes a data set, and no method may look at it.
    """
    labels = np.asarray(labels)
    total, images = 0.0, 0
    for label in np.unique(labels[labels >= 0]):
        members = np.asarray(features[labels == label], np.float32)
        distances = np.linalg.norm(members - members.mean(axis=0), axis=1)
        total, images = total + float(distances.sum()), images + len(members)
    if total == 0:
        raise TrimtabError("Compactness needs a class with at least two different labeled images.")
    return images / total


def _pieces(probabilities: Array, labels: Labels, known: NDArray[np.intp]) -> Iterator[tuple[int, Array, Labels]]:
    for start in range(0, len(known), PIECE):
        rows = known[start : start + PIECE]
        yield start, np.asarray(probabilities[rows]), labels[rows]
