"""What was just there is likely to be there still: images come in runs, and a stream that has runs shows it.

A camera looks at one thing for a while, a folder holds one album after the other. Three running means of what was
believed of the images, over the last 2, 8 and 32 or so, say what was just there; the mean of all that was said tells
what is usual. With the share w_k of the images that come as the k-th of them foretells, and the rest as usual, a class
is to be expected

    expected_c = 1 + sum_k w_k (recent_kc / usual_c - 1)

times as much as usual (Bayes' rule with the next image's prior in the place of the stream's). The shares are learned by
how well each mean foretold what was said next, one step of expectation-maximization per image. In a shuffled stream
nothing recent foretells better than what is usual: the shares go to nothing, and nothing changes.

Two things keep what is usual from misleading. It is what was said, not what was believed: a belief that is wrong for a
whole run would else become usual itself, and then speak against what is right. And while one class was there, what was
said of it is not what is usual: a name that it never got would seem unusual for no other reason. So for what to expect,
the mean counts as far as several classes were named (foretelling.py), and for the rest all classes are taken to be
equally usual. Shares are learned by the mean as it is: what a text says of all images alike is no run.

A stream that changes for good looks like a run to whoever remembers all of it. And shares that have gone to 1 come back
slowly where images say little. So after 10,000 images, and every 5,000 from then on, what was usual counts half, and
whether there are runs is asked anew.

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
FIRST_SHARE = 0.1  # of all horizons together, before anything is known
LEAST_SHARE = 0.002  # so that a share can grow again
LEAST = 1e-30  # what is said of a class: halved a thousand times, nothing at all would be slow to compute with
WINDOW, WARM_UP = 100.0, 20.0  # images that the shares speak of; images' worth of caution at the start
LONGEST = 10_000  # images after which what was usual counts half, and whether there are runs is asked anew


class Context:
    """What a stream remembers of its last images: (K + 1) C + K + 1 numbers for K horizons; K = 0: nothing."""

    def __init__(self, classes: int, *, ordered: bool = True) -> None:
        horizons = len(HORIZONS) if ordered else 0
        self.sums = np.full(classes, WARM_UP / classes)  # of all that was said, beginning with what favors no class
        self.recent = np.tile(self.sums / WARM_UP, (horizons, 1))
        self.shares = first_shares(ordered=ordered)

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


def first_shares(*, ordered: bool) -> Doubles:
    """(K + 1,): of images that come as usual, and as each mean foretells, before anything is known; K = 0: no order."""
    shares = np.ones(len(HORIZONS) + 1 if ordered else 1)
    if ordered:
        begin_shares(shares)
    return shares


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def expect(sums: Doubles, recent: Doubles, shares: Doubles, known: float, expected: Doubles) -> None:
    """Write (C,): how many times as much as usual each class is to be expected in the next image; `known`, 0 to 1, is
    how far the mean of all says what is usual.
    """
    mean, even = known / total_of(sums), (1 - known) / len(sums)
    short, middle, long = shares[1], shares[2], shares[3]
    for c in range(len(expected)):
        just_there = short * recent[0, c] + middle * recent[1, c] + long * recent[2, c]
        expected[c] = shares[0] + just_there / (mean * sums[c] + even)


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn_context(
    sums: Doubles, recent: Doubles, shares: Doubles, expected: Doubles, said: Doubles, images: float
) -> None:
    """Take in what is said of the next image after `images`: (C,), in any unit. It is believed as far as `expected`."""
    usual, longest = total_of(sums), images + 2.0
    if usual >= LONGEST + WARM_UP:
        _ask_anew(sums, recent, shares)
        usual *= 0.5
    total, short, middle, long = _foretold(sums, recent, said)
    learn_shares(shares, short * usual / total, middle * usual / total, long * usual / total, images)
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


@njit(nogil=True)
def _ask_anew(sums: Doubles, recent: Doubles, shares: Doubles) -> None:
    """Let what was usual count half, and begin anew with what was just there and whether it foretells anything."""
    sums *= 0.5
    for horizon in range(len(recent)):
        recent[horizon] = sums / total_of(sums)
    begin_shares(shares)


@njit(nogil=True)
def begin_shares(shares: Doubles) -> None:
    """Write (K + 1,): of images that come as usual, and as each mean foretells, before anything is known."""
    shares[1:] = FIRST_SHARE / (len(shares) - 1)
    shares[0] = 1 - shares[1:].sum()


# Each loop has a function of its own: in one function they are not all made vector instructions.


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def _foretold(sums: Doubles, recent: Doubles, said: Doubles) -> tuple[float, float, float, float]:
    """The sum of what is said, and how far each mean foretold it, over what is usual."""
    total, short, middle, long = 0.0, 0.0, 0.0, 0.0
    for c in range(len(sums)):
        unusual = said[c] / sums[c]
        total += said[c]
        short += unusual * recent[0, c]
        middle += unusual * recent[1, c]
        long += unusual * recent[2, c]
    return total, short, middle, long


@njit(fastmath=VECTORIZE, nogil=True, error_model="numpy")
def learn_shares(shares: Doubles, short: float, middle: float, long: float, images: float) -> None:
    """One step of expectation-maximization; no small arrays, each of which takes as long as a sum over the classes."""
    newest = max(1 / WINDOW, 1 / (images + WARM_UP))
    foretold = shares[0], shares[1] * short, shares[2] * middle, shares[3] * long
    all_foretold, total = foretold[0] + foretold[1] + foretold[2] + foretold[3], 0.0
    for horizon in range(len(foretold)):
        now = foretold[horizon] / all_foretold
        shares[horizon] = max(shares[horizon] + (now - shares[horizon]) * newest, LEAST_SHARE)
        total += shares[horizon]
    for horizon in range(len(foretold)):
        shares[horizon] /= total


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
