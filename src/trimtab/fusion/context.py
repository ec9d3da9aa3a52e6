"""What was just there is likely to be there still: images come in runs, and a stream that has runs shows it.

A camera looks at one thing for a while, a folder holds one album after the other. Four things say what comes next:

* three running means of what was believed of the images, over the last 2, 8 and 32 or so, which fit a few classes that
  take turns;
* and which class the run is of, if it is a run of one class: what the images say, one after the other, adds up,

      run_c <- run_c (1 + said_c / usual_c) / 2,   made to sum to 1 together with what stands for no run.

  An image halves a class at the most, so that no single one ends a run. Every 32nd image or so one does, and with even
  odds another begins. Where there is none, the next image comes as usual.

What is usual is the mean of all that was said. With the share w_k of the images that come as the k-th of these
foretells, and the rest as usual, a class is to be expected

    expected_c = 1 + sum_k w_k (recent_kc / usual_c - 1)

times as much as usual (Bayes' rule with the next image's prior in the place of the stream's). The shares are learned by
how well each foretold what was said next, one step of expectation-maximization per image. In a shuffled stream nothing
recent foretells better than what is usual: the shares go to nothing, and nothing changes.

Two things keep what is usual from misleading. It is what was said, not what was believed: a belief that is wrong for a
whole run would else become usual itself, and then speak against what is right. And while one class was there, what was
said of it is not what is usual: a name that it never got would seem unusual for no other reason. So for what to expect,
the mean counts as far as several classes were named (foretelling.py), and for the rest all classes are taken to be
equally usual. Shares are learned by the mean as it is: one that a text has for all images alike is no run.

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
        self.recent = np.tile(self.sums / WARM_UP, (rows, 1))
        self.recent[RUN:] = 0  # sums to less than 1: the rest stands for no run
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
        self.recent[:RUN], self.recent[RUN:] = self.sums / self.sums.sum(), 0


def first_shares(rows: int) -> Doubles:
    """(K + 1,): of images that come as usual, and as each of K rows foretells, before anything is known."""
    shares = np.full(rows + 1, FIRST_SHARE / max(rows, 1))
    shares[0] = 1 - shares[1:].sum()
    return shares


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def find_usual(sums: Doubles, known: float, usual: Doubles) -> None:
    """Write (C,): how usual each class is, as far as that is known, 0 to 1."""
    mean, rest = known / total_of(sums), (1 - known) / len(sums)
    for c in range(len(usual)):
        usual[c] = mean * sums[c] + rest


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def expect(usual: Doubles, recent: Doubles, shares: Doubles, expected: Doubles) -> None:
    """Write (C,): how many times as much as usual each class is to be expected in the next image."""
    short, middle, long, run = shares[1], shares[2], shares[3], shares[4]
    as_usual = shares[0] + run * (1 - total_of(recent[RUN]))
    for c in range(len(expected)):
        just_there = short * recent[0, c] + middle * recent[1, c] + long * recent[2, c] + run * recent[RUN, c]
        expected[c] = as_usual + just_there / usual[c]


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn_context(
    sums: Doubles, recent: Doubles, shares: Doubles, usual: Doubles, expected: Doubles, said: Doubles, images: float
) -> None:
    """Take in what is said of the next image after `images`: (C,), in any unit. It is believed as far as `expected`."""
    longest, (total, foretold, by_run) = images + 2.0, _foretold(sums, usual, recent, said)
    learn_shares(shares, foretold, images)
    _continue_run(usual, recent[RUN], said, total, by_run)
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
def _foretold(
    sums: Doubles, usual: Doubles, recent: Doubles, said: Doubles
) -> tuple[float, tuple[float, float, float, float], float]:
    """The sum of what is said; how far each row of what is recent foretold it, over the mean of all; and how far the
    run did, over what is usual.
    """
    total, short, middle, long, run, by_run = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(len(sums)):
        over_mean = said[c] / sums[c]
        total += said[c]
        short += over_mean * recent[0, c]
        middle += over_mean * recent[1, c]
        long += over_mean * recent[2, c]
        run += over_mean * recent[RUN, c]
        by_run += said[c] / usual[c] * recent[RUN, c]
    unit, no_run = total_of(sums) / total, 1 - total_of(recent[RUN])
    return total, (short * unit, middle * unit, long * unit, run * unit + no_run), by_run / total + no_run


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
def _continue_run(usual: Doubles, run: Doubles, said: Doubles, total: float, by_run: float) -> None:
    """Let what is said add up, halving a class at the most; then it continues, or ends and another may begin."""
    unit, continues, begins = 1 / total, (1 - ENDS) / (1 + by_run), ENDS / 2
    for c in range(len(run)):
        run[c] = continues * run[c] * (1 + said[c] * unit / usual[c]) + begins * usual[c]


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
