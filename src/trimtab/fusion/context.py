"""What was just there is likely to be there still: images come in runs, and a stream that has runs shows it.

A camera looks at one thing for a while, a folder holds one album after the other. Four things say what may come next:

* three running means of what was believed of the images, over the last 2, 8 and 32 or so, which fit a few classes that
  take turns;
* the class of the run, if it is a run of one class: what the images say, one after the other, adds up,

      run_c <- run_c (1 + said_c / usual_c) / 2,   made to sum to 1,

  and a run ends with every 32nd image or so. An image halves a class at the most, so that no single one ends a run.

The mean of all that was said is what is usual. With the share w_k of the images that come as the k-th of these
foretells, and the rest as usual, a class is to be expected

    expected_c = 1 + sum_k w_k (recent_kc / usual_c - 1)

times as much as usual (Bayes' rule with the next image's prior in the place of the stream's). The shares are learned by
how well each foretold what was said next, one step of expectation-maximization per image. In a shuffled stream nothing
recent foretells better than what is usual: the shares go to nothing, and nothing changes.

What is usual is the mean of what was said as it was said, not as it was believed: a belief that is wrong for a whole
run would else become usual itself, and then speak against what is right.

Where there are runs, caches and memories hold what was there before; how far they count is asked of the runs themselves
(foretelling.py).

Who listens decides what is said: weights found from the stream (auto.py) take in what the text says, in which no memory
has a part; a guard takes in that, and what the method answers (guard/runs.py).
"""

import numpy as np

from trimtab.engine.arrays import Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE
from trimtab.fusion.loops import total_of

HORIZONS = np.array([2.0, 8.0, 32.0])  # images that each mean speaks of
RUN = len(HORIZONS)  # the row of what is recent that says which class the run is of
ENDS = 1 / 32  # share of the images with which a run ends
FIRST_SHARE = 0.1  # of all horizons together, before anything is known
LEAST_SHARE = 0.002  # so that a share can grow again
LEAST = 1e-30  # what is said of a class: halved a thousand times, nothing at all would be slow to compute with
WINDOW, WARM_UP = 50.0, 20.0  # images that the shares speak of; images' worth of caution at the start


class Context:
    """What a stream remembers of its last images: (K + 1) C + K + 1 numbers, K = 4; without an order, C + 1."""

    def __init__(self, classes: int, *, ordered: bool = True) -> None:
        rows = RUN + 1 if ordered else 0
        self.sums = np.full(classes, WARM_UP / classes)  # of all that was said, beginning with what favors no class
        self.recent = np.tile(self.sums / WARM_UP, (rows, 1))  # the means; and, before the next image, the run's class
        self.shares = first_shares(rows)

    def lie_in(self, said: Doubles, shares: Doubles) -> None:
        """Keep everything in arrays of somebody's own, (K + 1, C) and (K + 1,), from now on."""
        said[0], said[1:], shares[:] = self.sums, self.recent, self.shares
        self.sums, self.recent, self.shares = said[0], said[1:], shares

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"context_sums": self.sums, "context_recent": self.recent, "context_shares": self.shares}

    @property
    def in_runs(self) -> float:
        """The share of the images that come as what was just there foretells."""
        return float(self.shares[1:].sum())

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.recent[:] = self.sums / self.sums.sum()


def first_shares(rows: int) -> Doubles:
    """(K + 1,): of images that come as usual, and as each of K rows foretells, before anything is known."""
    shares = np.full(rows + 1, FIRST_SHARE / max(rows, 1))
    shares[0] = 1 - shares[1:].sum()
    return shares


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def expect(sums: Doubles, recent: Doubles, shares: Doubles, expected: Doubles) -> None:
    """(C,): how many times as much as usual each class is to be expected in the next image."""
    images, short, middle, long, run = total_of(sums), shares[1], shares[2], shares[3], shares[4]
    for c in range(len(expected)):
        just_there = short * recent[0, c] + middle * recent[1, c] + long * recent[2, c] + run * recent[RUN, c]
        expected[c] = shares[0] + just_there * images / sums[c]


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn_context(
    sums: Doubles, recent: Doubles, shares: Doubles, expected: Doubles, said: Doubles, images: float
) -> None:
    """Take in what is said of the next image after `images`: (C,), in any unit. It is believed as far as `expected`."""
    longest, (total, foretold) = images + 2.0, _foretold(sums, recent, said)
    learn_shares(shares, foretold, images)
    _continue_run(sums, recent[RUN], said, total, foretold[RUN])
    _take_in(
        sums,
        recent,
        expected,
        said,
        1 / total,
        1 / _believed(expected, said),
        1 / min(HORIZONS[0], longest),
        1 / min(HORIZONS[1], longest),
        1 / min(HORIZONS[2], longest),
    )


# Each loop has a function of its own: in one function they are not all made vector instructions.


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _foretold(sums: Doubles, recent: Doubles, said: Doubles) -> tuple[float, tuple[float, float, float, float]]:
    """The sum of what is said, and how far each row of what is recent foretold it, over what is usual."""
    total, short, middle, long, run = 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(len(sums)):
        unusual = said[c] / sums[c]
        total += said[c]
        short += unusual * recent[0, c]
        middle += unusual * recent[1, c]
        long += unusual * recent[2, c]
        run += unusual * recent[RUN, c]
    unit = total_of(sums) / total
    return total, (short * unit, middle * unit, long * unit, run * unit)


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn_shares(shares: Doubles, foretold: tuple[float, ...], images: float) -> None:
    """One step of expectation-maximization; no small arrays, each of which takes as long as a sum over the classes."""
    newest = max(1 / WINDOW, 1 / (images + WARM_UP))
    all_foretold = shares[0]
    for row in range(len(foretold)):
        all_foretold += shares[row + 1] * foretold[row]
    shares[0] = max(shares[0] + (shares[0] / all_foretold - shares[0]) * newest, LEAST_SHARE)
    total = shares[0]
    for row in range(len(foretold)):
        now = shares[row + 1] * foretold[row] / all_foretold
        shares[row + 1] = max(shares[row + 1] + (now - shares[row + 1]) * newest, LEAST_SHARE)
        total += shares[row + 1]
    for row in range(len(shares)):
        shares[row] /= total


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _continue_run(sums: Doubles, run: Doubles, said: Doubles, total: float, foretold: float) -> None:
    """Let what is said add up, halving a class at the most; then the run goes on or ends with what is usual."""
    images = total_of(sums)
    unit, goes_on, ends = images / total, (1 - ENDS) / (1 + foretold), ENDS / images
    for c in range(len(run)):
        run[c] = goes_on * run[c] * (1 + said[c] * unit / sums[c]) + ends * sums[c]


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _believed(expected: Doubles, said: Doubles) -> float:
    total = 0.0
    for c in range(len(said)):
        total += said[c] * expected[c]
    return total


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _take_in(
    sums: Doubles,
    recent: Doubles,
    expected: Doubles,
    said: Doubles,
    unit: float,
    believed: float,
    short: float,
    middle: float,
    long: float,
) -> None:
    """Let what is said count as usual, and what is believed for a share of each mean; both in units that sum to 1."""
    for c in range(len(sums)):
        now = said[c] * expected[c] * believed + LEAST
        sums[c] += said[c] * unit + LEAST
        recent[0, c] += (now - recent[0, c]) * short
        recent[1, c] += (now - recent[1, c]) * middle
        recent[2, c] += (now - recent[2, c]) * long
