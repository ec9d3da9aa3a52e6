"""How well names foretell the next: those that the text gives alone, and those that all parts give together.

Where images come in runs, caches and memories hold what was there before. On some streams they help all the same, on
others they call every new class by the names of old ones. The runs themselves tell which, without labels: the images of
a run show one class, so names that are nearer to the truth repeat themselves within it more than elsewhere. Each of the
two is asked how far its last names foretell its next one,

    clearness = mean over the last images of log (w_0 + sum_k w_k lately_k(name) / usual(name)),

where lately_k is the share of a name among the last 2, 8 and 32, usual its share among all, and the weights w_k are
learned as those of the context (context.py). Whoever names one class whatever the image is foretells nothing. What this
cannot see are names that are wrong in the same way throughout a run, and a first run that has not ended yet.

What is held counts in a run as far as all parts show it more clearly than the text alone (`held_counts`): not at all
where they do not, fully where they do by three tenths. A text may show runs that are lost on all parts together; so the
share of images in runs is the greater of the text's and the context's.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import ramp
from trimtab.fusion.context import HORIZONS, WARM_UP, first_shares, learn_shares

Names = NDArray[np.int64]

LAST = int(HORIZONS[-1])  # names that are kept
WINDOW = 300.0  # images that the clearness speaks of
ROUNDING = 0.1  # of clearness, in nats: as much is there by chance, and not twice as clear as half of it
RUNS = (0.2, 0.4)  # share of images in runs: up to the first what is held counts as ever, from the second on as found
CLEARER = (1.0, 1.3)  # clearness of all parts over that of the text: from not at all to fully

TEXT, ALL = range(2)  # who names: rows of each array


class Foretelling:
    """What the text and all parts have named: 2 C numbers and the last 32 names of each; without an order, nothing."""

    def __init__(self, classes: int, *, ordered: bool = True) -> None:
        self.usual = np.full((2, classes if ordered else 0), WARM_UP / classes)  # how often each class was named
        self.lately = np.zeros((2, LAST if ordered else 0), np.int64)
        self.since = np.zeros(1, np.int64)  # names since a cut; the next one is kept at this place, modulo LAST
        self.shares = np.tile(first_shares(ordered=ordered), (2, 1))
        self.clearness = np.zeros(2)

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {
            "names_usual": self.usual,
            "names_lately": self.lately,
            "names_since": self.since,
            "names_shares": self.shares,
            "names_clearness": self.clearness,
        }

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.since[:] = 0


@njit(nogil=True)
def held_counts(context_shares: Doubles, shares: Doubles, clearness: Doubles) -> float:
    """How far what is held of the stream counts, 0 to 1."""
    in_runs = 1 - min(context_shares[0], shares[TEXT, 0])
    clearer = (max(clearness[ALL], 0.0) + ROUNDING) / (max(clearness[TEXT], 0.0) + ROUNDING)
    return 1 - ramp(in_runs, *RUNS) * (1 - ramp(clearer, *CLEARER))


@njit(nogil=True)
def learn_names(
    usual: Doubles,
    lately: Names,
    since: Names,
    shares: Doubles,
    clearness: Doubles,
    by_text: int,
    by_all: int,
    images: float,
) -> None:
    """Take in what the text and all parts name the next image after `images`."""
    newest = max(1 / WINDOW, 1 / (images + WARM_UP))
    for who, name in enumerate((by_text, by_all)):
        if since[0] > 0:
            unit = (images + WARM_UP) / usual[who, name]
            short, middle, long = _shares_of(name, lately[who], since[0])
            own = shares[who]
            foretold = own[0] + (own[1] * short + own[2] * middle + own[3] * long) * unit
            clearness[who] += (np.log(foretold) - clearness[who]) * newest
            learn_shares(own, short * unit, middle * unit, long * unit, images)
        usual[who, name] += 1
        lately[who, since[0] % LAST] = name
    since[0] += 1


@njit(nogil=True)
def _shares_of(name: int, lately: Names, since: int) -> tuple[float, float, float]:
    """Of a name among the last names, over each horizon."""
    short, middle, long, kept = 0.0, 0.0, 0.0, min(since, LAST)
    for age in range(kept):
        if lately[(since - 1 - age) % LAST] == name:
            short += age < HORIZONS[0]
            middle += age < HORIZONS[1]
            long += 1
    return short / min(HORIZONS[0], since), middle / min(HORIZONS[1], since), long / kept
