"""What was just there is likely to be there still: images come in runs, and a stream that has runs shows it.

A camera looks at one thing for a while, a folder holds one album after the other. Three running means of the answers,
over the last 2, 8 and 32 images or so, say what was just there; the mean of all says what is usual. With the share w_k
of the images that come as the k-th of them foretells, and the rest as usual, a class is to be expected

    expected_c = 1 + sum_k w_k (recent_kc / usual_c - 1)

times as much as usual (Bayes' rule with the next image's prior in the place of the stream's). The shares are learned by
how well each mean foretold what the parts then said, one step of expectation-maximization per image. In a shuffled
stream nothing recent foretells better than what is usual: the shares go to nothing, and nothing changes.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE

HORIZONS = np.array([2.0, 8.0, 32.0])  # images that each mean speaks of
FIRST_SHARE = 0.1  # of all horizons together, before anything is known
LEAST_SHARE = 0.002  # so that a share can grow again
WINDOW, WARM_UP = 100.0, 20.0  # images that the shares speak of; images' worth of caution at the start
POWER = 1.5  # answers are this much surer when they meet what is expected, or a long run could drown what comes next


class Context:
    """What a stream remembers of its last answers: (K + 1) C + K + 1 numbers for K horizons; K = 0: nothing."""

    def __init__(self, classes: int, *, ordered: bool) -> None:
        horizons = len(HORIZONS) if ordered else 0
        self.sums = np.full(classes, WARM_UP / classes)  # of all answers, beginning with a few that favor no class
        self.recent = np.tile(self.sums / WARM_UP, (horizons, 1))
        self.shares = np.full(horizons + 1, FIRST_SHARE / max(horizons, 1))  # the first: as usual
        self.shares[0] = 1 - self.shares[1:].sum()

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"context_sums": self.sums, "context_recent": self.recent, "context_shares": self.shares}

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.recent[:] = self.sums / self.sums.sum()


@njit(fastmath=VECTORIZE, nogil=True)
def expect(sums: Doubles, recent: Doubles, shares: Doubles, expected: Doubles) -> None:
    """(C,): how many times as much as usual each class is to be expected in the next image."""
    expected[:] = 1
    images = sums.sum()
    for horizon in range(len(recent)):
        share = shares[horizon + 1]
        for c in range(len(expected)):
            expected[c] += share * (recent[horizon, c] * images / sums[c] - 1)


@njit(fastmath=VECTORIZE, nogil=True)
def learn_context(
    sums: Doubles, recent: Doubles, shares: Doubles, expected: Doubles, fused: Array, seen: NDArray[np.int64]
) -> None:
    """Take in what the parts say of an image, (C,) probabilities, that was expected so."""
    classes, images = len(sums), sums.sum()
    answer = np.empty(classes)
    said, total = 0.0, 0.0
    for c in range(classes):
        answer[c] = fused[c] * np.sqrt(fused[c])  # to the power of POWER
        said += answer[c]
    foretold = shares.copy()
    for horizon in range(len(recent)):
        likelihood = 0.0
        for c in range(classes):
            likelihood += answer[c] * recent[horizon, c] / sums[c]
        foretold[horizon + 1] *= likelihood * images / said
    foretold /= foretold.sum()
    newest = max(1 / WINDOW, 1 / (seen[0] + WARM_UP))
    for horizon in range(len(shares)):
        shares[horizon] = max(shares[horizon] + (foretold[horizon] - shares[horizon]) * newest, LEAST_SHARE)
    shares /= shares.sum()
    for c in range(classes):
        answer[c] *= expected[c]
        total += answer[c]
    for horizon in range(len(recent)):
        newest = 1 / min(HORIZONS[horizon], seen[0] + 2.0)
        for c in range(classes):
            recent[horizon, c] += (answer[c] / total - recent[horizon, c]) * newest
    for c in range(classes):
        sums[c] += answer[c] / total
