"""The rounds of `whitening.fit_classes` over n images and C classes, as compiled loops without arrays in between.

What lies between two matrix products is one call (`begin`, `evidence`, `take_habit_off`, `find_better`).

Everything is class by class, (C, n): a loop along the images runs in lanes however few the classes are. Images are
taken a stretch at a time, so that what is read again is still near.

Sums stand in loops that write nothing, and sums over the classes grow image by image: their bits then depend on the
numbers alone (see `kernels.softmax_in_place`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, exp

FIRST_CONFIDENCE, MOST_CONFIDENCE = 0.55, 0.9  # the text's mean confidence in the posteriors: at first, and at most
HABIT = 2.0  # share of the text's habit taken off, per share of images that text and discriminant name otherwise
MOST_KAPPA = 1e4
STRETCH = 256  # images at once
FEW = 256  # images to find the text's mean confidence on
STEPS = 8  # to find it
FAINT = np.float32(-60)  # logits this far below the best count as this: smaller numbers are slow to compute with
NOTHING = np.float32(1e-12)  # posteriors below are none at all, for the same reason

Names = NDArray[np.int32]


class Evidence(NamedTuple):
    """What posteriors say of the classes before their means are found."""

    counts: Array  # (C,): n_c
    kappa: float


class Means(NamedTuple):
    """The class means, and what they say of the images."""

    shares: Array  # (C, n): what each image counts for each mean
    products: Array  # (C, n): x_i' S^-1 m_c, written over
    squares: Array  # (C,): m_c' S^-1 m_c
    common: Array  # (C,): how much more common than others a class is taken to be, a logarithm
    reliability: Array  # (C,): r_c


@njit(fastmath=VECTORIZE, nogil=True)
def _sums(row: Array) -> tuple[np.float32, np.float32]:
    """The sum of numbers, and that of their squares."""
    total, squares = np.float32(0), np.float32(0)
    for k in range(len(row)):  # by places: over the row itself, the loop would not run in lanes
        total += row[k]
        squares += row[k] * row[k]
    return total, squares


@njit(nogil=True)
def begin(cosines: Array) -> tuple[Array, Array]:
    """(C, n) each: the text as the rounds take it, and the posteriors that it alone gives."""
    text = centered(cosines)
    return text, text_posteriors(text, factor_for(text, FIRST_CONFIDENCE))


@njit(nogil=True)
def take_habit_off(text: Array, means: Means, length: float) -> tuple[Array, float, Names, Array]:
    """Take the habit off the text, as far as the discriminants say otherwise: (C,) what was taken off it.

    How often they name images alike; and what that leaves: (n,) how the text names the images, (C, n) the posteriors
    that it alone gives.
    """
    leave_out(means, length)
    agreement = share_alike(named(means.products), named(text))
    habit = less_habit(text, min(1.0, HABIT * (1 - agreement)))
    return habit, agreement, named(text), text_posteriors(text, factor_for(text, FIRST_CONFIDENCE))


@njit(nogil=True)
def find_better(text: Array, says: Names, means: Means, length: float, strength: float, posteriors: Array) -> float:
    """Write the posteriors of the next round: (C, n), from what the class means say of the images.

    The share of the images that text and discriminants name alike.
    """
    leave_out(means, length)
    agreement = share_alike(named(means.products), says)
    factor = factor_for(text, min(max(agreement, FIRST_CONFIDENCE), MOST_CONFIDENCE))
    find_posteriors(text, factor, means.products, means.reliability, strength, posteriors)
    return agreement


@njit(nogil=True)
def centered(cosines: Array) -> Array:
    """(C, n): the cosines less each image's mean."""
    classes, images = cosines.shape
    text, means = np.empty_like(cosines), np.zeros(images, np.float32)
    for c in range(classes):
        means += cosines[c]
    means /= np.float32(classes)
    for c in range(classes):
        for image in range(images):
            text[c, image] = cosines[c, image] - means[image]
    return text


@njit(nogil=True)
def less_habit(text: Array, share: float) -> Array:
    """(C,): this share of the text's mean over the images, which is taken off it."""
    habit = np.empty(len(text), np.float32)
    for c in range(len(text)):
        habit[c] = np.float32(share) * _sums(text[c])[0] / np.float32(text.shape[1])
        text[c] -= habit[c]
    return habit


@njit(nogil=True)
def named(scores: Array) -> Names:
    """(n,): where each image's highest score stands; of equals, the first."""
    classes, images = scores.shape
    highest, best = scores[0].copy(), np.zeros(images, np.int32)
    for c in range(1, classes):
        row = scores[c]
        for image in range(images):
            if row[image] > highest[image]:
                highest[image], best[image] = row[image], np.int32(c)
    return best


@njit(nogil=True)
def factor_for(text: Array, confidence: float) -> float:
    """What gives logits this mean confidence, nearly; a few hundred images, evenly spread, tell it."""
    classes, images = text.shape
    count = min(images, FEW)
    below = np.empty((classes, count), np.float32)
    for place in range(count):
        image = place * (images - 1) // max(count - 1, 1)
        for c in range(classes):
            below[c, place] = text[c, image]
    total, square = 0.0, 0.0
    for c in range(classes):
        sums = _sums(below[c])
        total += float(sums[0])
        square += float(sums[1])
    mean = total / below.size
    factor = 2.0 / max(np.sqrt(max(square / below.size - mean * mean, 0.0)), 1e-9)
    highest = below[0].copy()
    for c in range(1, classes):
        np.maximum(highest, below[c], highest)
    for c in range(classes):
        below[c] -= highest
    sums_over = np.empty(count, np.float32)
    for _ in range(STEPS):
        sums_over[:] = 0
        for c in range(classes):
            row = below[c]
            for place in range(count):
                sums_over[place] += exp(max(np.float32(factor) * row[place], FAINT))
        factor *= np.exp(2 * (confidence - (1 / sums_over).mean()))
    return factor


@njit(nogil=True)
def evidence(posteriors: Array, squares: Array, length: float) -> Evidence:
    """How often classes were seen, and kappa; `squares` are those of the class sums."""
    classes = len(posteriors)
    counts, explained, pairs = np.empty(classes, np.float32), 0.0, 0.0
    for c in range(classes):
        counts[c], squared = _sums(posteriors[c])
        # Pairs of different images: what an image has in common with itself says nothing of its class.
        explained += squares[c] - length * squared
        pairs += counts[c] * counts[c] - squared
    share = min(max(explained / max(pairs, 1e-9) / length, 1 / MOST_KAPPA), 0.5)
    return Evidence(counts, (1 - share) / share)


@njit(nogil=True, error_model="numpy")
def leave_out(means: Means, length: float) -> None:
    """Make discriminants (C, n) of the products: each image's own share is left out of a class's mean."""
    whole, half = np.float32(length), np.float32(0.5)
    for c in range(len(means.products)):
        row, own_row, square, common = means.products[c], means.shares[c], means.squares[c], means.common[c]
        for image in range(len(row)):
            own, product = own_row[image], row[image]
            over_left = np.float32(1) / (np.float32(1) - own)
            spoken = (product - own * whole) * over_left
            length_left = (square + own * (own * whole - np.float32(2) * product)) * over_left * over_left
            row[image] = spoken - half * length_left + common


@njit(nogil=True)
def share_alike(one: Names, other: Names) -> float:
    """Share of the images that both name alike."""
    alike = 0
    for image in range(len(one)):
        alike += one[image] == other[image]
    return alike / len(one)


@njit(nogil=True)
def text_posteriors(text: Array, factor: float) -> Array:
    """(C, n): softmax(factor * text)."""
    found = np.float32(factor) * text
    images = text.shape[1]
    softmax_of(found, 0, images, np.empty(images, np.float32), np.empty(images, np.float32))
    return found


@njit(nogil=True)
def find_posteriors(
    text: Array, factor: float, scores: Array, reliability: Array, strength: float, posteriors: Array
) -> None:
    """Write (C, n): softmax(t + strength * known * scores) for t = factor * text, known = softmax(t) . reliability."""
    classes, images = text.shape
    sharp, strong = np.float32(factor), np.float32(strength)
    room = np.empty((4, STRETCH), np.float32)
    for first in range(0, images, STRETCH):
        count = min(STRETCH, images - first)
        highest, total, known, new = room[0, :count], room[1, :count], room[2, :count], room[3, :count]
        highest[:] = text[0, first : first + count]
        for c in range(1, classes):
            row = text[c, first : first + count]
            for image in range(count):
                highest[image] = max(highest[image], row[image])
        total[:] = 0
        known[:] = 0
        for c in range(classes):
            row, reliable = text[c, first : first + count], reliability[c]
            for image in range(count):
                new[image] = exp(max(sharp * (row[image] - highest[image]), FAINT))
            for image in range(count):
                total[image] += new[image]
            for image in range(count):
                known[image] += reliable * new[image]
        for image in range(count):
            known[image] *= strong / total[image]
        for c in range(classes):
            row, own = text[c, first : first + count], scores[c, first : first + count]
            out = posteriors[c, first : first + count]
            for image in range(count):
                out[image] = sharp * row[image] + known[image] * own[image]
        softmax_of(posteriors, first, count, highest, total)


@njit(nogil=True, error_model="numpy")
def softmax_of(logits: Array, first: int, images: int, highest: Array, total: Array) -> None:
    """Softmax over the classes of so many of the (C, n) logits, written over them; with room for two figures per image.

    Rows are cut where they are walked: cut as a table, they would not be known to lie in one piece, nor run in lanes.
    """
    classes = len(logits)
    highest[:] = logits[0, first : first + images]
    for c in range(1, classes):
        row = logits[c, first : first + images]
        for image in range(images):
            highest[image] = max(highest[image], row[image])
    total[:] = 0
    for c in range(classes):
        row = logits[c, first : first + images]
        for image in range(images):
            row[image] = exp(max(row[image] - highest[image], FAINT))
        for image in range(images):
            total[image] += row[image]
    for image in range(images):
        total[image] = np.float32(1) / total[image]
    for c in range(classes):
        row = logits[c, first : first + images]
        for image in range(images):
            share = row[image] * total[image]
            row[image] = share if share > NOTHING else np.float32(0)
