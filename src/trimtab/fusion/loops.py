"""The loops of `AutoWeights` over the classes. The tests compare each with a plain NumPy twin.

Shapes: logs, unbiased, habit (P, C) for P parts, agreement (P - 1, 2), the rest per class (C,) or per part (P,). Logits
are log-probabilities less their mean.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, highest_of

WARM_UP = 20.0  # images after which the parts that learn have half their force, and a habit is half believed
SAME = np.float32(1e-4)  # values that differ by less are equal but for rounding
WINDOW = 0.03  # share of the newest image in the agreement: it speaks of the last thirty or so


@njit(fastmath=VECTORIZE, nogil=True)
def mean_at_highest(values: Array, probabilities: Array) -> float:
    """How probable the class of the highest value is.

    Classes that hold the same item have the same value: of ties the mean, so that the order of classes does not matter.
    """
    least = highest_of(values) - SAME
    total, count = np.float32(0), np.float32(0)
    for c in range(len(values)):  # a factor instead of a branch, which would keep the loop scalar
        tied = np.float32(1) if values[c] >= least else np.float32(0)
        total += tied * probabilities[c]
        count += tied
    return float(total / count)


@njit(nogil=True)
def trust(agreement: Doubles, classes: int) -> float:
    """How far to believe evidence, 0 to 1, from two running means beyond chance:

    how probable its favorite class is to what it is compared with, over how probable that finds a class drawn from
    itself. Evidence that reaches less than half of this is not believed at all.
    """
    chance = 1.0 / classes
    reached = (agreement[0] - chance) / max(agreement[1] - chance, 1e-6)
    return min(1.0, max(0.0, 2 * reached - 1))


@njit(nogil=True)
def trusts(agreement: Doubles, classes: int) -> Doubles:
    """(P - 1,): the trust in each part after the text."""
    return np.array([trust(pair, classes) for pair in agreement])


@njit(nogil=True)
def forces(shares: Doubles, spread: Doubles, trusted: Doubles, seen: int) -> Doubles:
    """The exponent of each part in the product: its share, at the text's spread; the shares in use sum to one."""
    warm = seen / (seen + WARM_UP)
    used = shares.copy()
    for part in range(1, len(used)):  # a loop: as an array expression it takes three seconds to compile
        used[part] *= warm * trusted[part - 1]
    total = used.sum()
    for part in range(len(used)):
        matched = np.sqrt(spread[0] / spread[part]) if part > 0 and spread[part] > 0 else 1.0
        used[part] *= matched / total
    return used


@njit(fastmath=VECTORIZE, nogil=True)
def total_of(values: Array | Doubles) -> float:
    """As one vectorized loop, which the method `sum` of an array is not."""
    total = values[0] - values[0]  # 0, of their kind
    for c in range(len(values)):
        total += values[c]
    return total


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def weigh(
    logs: Array, habits: Doubles, habit: Doubles, habit_weight: Doubles, force: Doubles, unbiased: Array, scores: Array
) -> None:
    """Take the mean off each row of logs, write it without the part's habit to unbiased, and their product to scores.

    A habit seen on few images is drawn towards the mean habit of all classes. The highest score is 0.
    """
    parts, classes = logs.shape
    total_weight = max(total_of(habit_weight), 1e-9)
    rarity = np.empty(classes)
    for c in range(classes):  # one division for all parts
        rarity[c] = 1 / (habit_weight[c] + WARM_UP)
    scores[:] = 0
    for part in range(parts):
        row, own, result = logs[part], habit[part], unbiased[part]
        mean = total_of(row) / np.float32(classes)
        usual = WARM_UP * total_of(own) / total_weight
        taken_off, factor = habits[part], np.float32(force[part])
        for c in range(classes):
            row[c] -= mean
            result[c] = row[c] - np.float32(taken_off * (own[c] + usual) * rarity[c])
            scores[c] += factor * result[c]
    highest = highest_of(scores)
    for c in range(classes):
        scores[c] -= highest


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn(
    said: tuple[Array, ...],
    image: int,
    logs: Array,
    unbiased: Array,
    fused: Array,
    habit: Doubles,
    habit_weight: Doubles,
    spread: Doubles,
    agreement: Doubles,
    seen: NDArray[np.int64],
) -> None:
    """Take in one image, of what the parts `said` (B, C): the arguments from habit on are written."""
    parts, classes = logs.shape
    recent = max(1.0 / (seen[0] + 1), WINDOW)
    for part in range(parts):
        row, raw, own = unbiased[part], logs[part], habit[part]
        mean, square = 0.0, 0.0
        for c in range(classes):  # sums in a loop that writes nothing: see `kernels.softmax_in_place`
            mean += fused[c] * row[c]
            square += fused[c] * row[c] * row[c]
        for c in range(classes):
            own[c] += (1 - fused[c]) * raw[c]
        spread[part] += (max(square - mean * mean, 0.0) - spread[part]) / (seen[0] + 2)  # the first guess counts as one
        if part > 0:
            itself, before = 0.0, said[part - 1][image]
            for c in range(classes):
                itself += before[c] * before[c]
            agreement[part - 1, 0] += (mean_at_highest(row, before) - agreement[part - 1, 0]) * recent
            agreement[part - 1, 1] += (itself - agreement[part - 1, 1]) * recent
    for c in range(classes):
        habit_weight[c] += 1 - fused[c]
    seen[0] += 1
