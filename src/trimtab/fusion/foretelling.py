"""How far to listen to what is held of a stream, by the names that images get: from the text alone, and from all parts.

Caches and memories help as long as they hold several classes, and what they hold is still there. Two things that names
show without labels say when that is not so.

**Whether there are several classes.** While a stream shows one class, a weak text calls its images by two or three
names. The caches of all of them fill with images of that one class, and then there is nothing to tell them apart by:
names are dealt out at random. So what is held counts as far as the text has named several classes: by the entropy of
its names, over that of ten classes or as many as there are. Or as far as all parts have, if that is more: a text may
call several classes by one name, and caches keep them apart; those that hold one class have only its names to deal out.

**Whether runs show.** Where images come in runs, caches hold what was there before. On some streams they help all the
same, on others they call every new class by the names of old ones. The runs themselves tell which: the images of a run
show one class, so names that are nearer to the truth repeat themselves within it more than elsewhere. Of the text and
of all parts it is asked how far the last names foretell the next one,

    clearness = mean over the last images of log (w_0 + sum_k w_k lately_k(name) / usual(name)),

where lately_k is the share of a name among the last 2, 8 and 32, usual its share among all, and the weights w_k are
learned as those of the context (context.py). Whoever names one class whatever the image is foretells nothing. In a run
what is held counts as far as all parts show it more clearly than the text: not at all where they do not, fully where
they do by three tenths. The share of images in runs is the greater of what the text's names show and what the context
does.

Neither sees names that are wrong in the same way throughout a run.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import ramp
from trimtab.fusion.context import HORIZONS, LONGEST, WARM_UP, begin_shares, first_shares, learn_shares

Names = NDArray[np.int64]

LAST = int(HORIZONS[-1])  # names that are kept
WINDOW = 300.0  # images that the clearness speaks of
BY_CHANCE = 0.1  # of clearness, in nats: so much is there by chance, and twice of nearly nothing is not clearer
RUNS = (0.2, 0.4)  # share of images in runs: up to the first what is held counts as ever, from the second on as found
CLEARER = (1.0, 1.3)  # clearness of all parts over that of the text: from not at all to fully
MANY = 10  # classes that are several for certain
SEVERAL = (0.45, 0.65)  # entropy of the text's names over that of so many: from not at all to fully
SEVERAL_TO_ALL = (0.55, 0.65)  # the same of all parts' names, three of which, dealt out at random, have 0.5

TEXT, ALL = range(2)  # who names: rows of each array
SINCE_CUT, IN_ALL = range(2)  # places in the array of counts
CLEARNESS, SPREAD = slice(0, 2), 2  # in that of figures: of both; and of the text's names the sum of n log n


class Foretelling:
    """What the text and all parts have named: 2 C numbers and the last 32 names of each; without an order, nothing."""

    def __init__(self, classes: int, *, ordered: bool = True) -> None:
        self.usual = np.full((2, classes if ordered else 0), WARM_UP / classes)  # how often each class was named
        self.lately = np.zeros((2, LAST if ordered else 0), np.int64)
        self.counts = np.zeros(2, np.int64)  # of names; the next one is kept at the place SINCE_CUT, modulo LAST
        self.shares = np.tile(first_shares(ordered=ordered), (2, 1))
        self.figures = np.zeros(3)

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {
            "names_usual": self.usual,
            "names_lately": self.lately,
            "names_counts": self.counts,
            "names_shares": self.shares,
            "names_figures": self.figures,
        }

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.counts[SINCE_CUT] = 0


@njit(nogil=True)
def held_counts(context_shares: Doubles, usual: Doubles, shares: Doubles, figures: Doubles, named: int) -> float:
    """How far what is held of the stream counts, 0 to 1, after so many names."""
    in_runs = 1 - min(context_shares[0], shares[TEXT, 0])
    clearer = (max(figures[ALL], 0.0) + BY_CHANCE) / (max(figures[TEXT], 0.0) + BY_CHANCE)
    as_runs_show = 1 - ramp(in_runs, *RUNS) * (1 - ramp(clearer, *CLEARER))
    several = several_named(figures, named, usual.shape[1])
    if several < 1:  # which is rare, so nobody keeps the sum for all parts
        several = max(several, ramp(_entropy(_spread(usual[ALL]), named, usual.shape[1]), *SEVERAL_TO_ALL))
    return as_runs_show * several


@njit(nogil=True)
def several_named(figures: Doubles, named: int, classes: int) -> float:
    """How far the text has named several classes, 0 to 1, after so many names."""
    return ramp(_entropy(figures[SPREAD], named, classes), *SEVERAL)


@njit(nogil=True)
def _spread(usual: Doubles) -> float:
    """The sum of n log n over how often each class was named; `usual` (C,) begins with what favors none."""
    total = 0.0
    for times in usual:
        total += _times_its_log(times - WARM_UP / len(usual))
    return total


@njit(nogil=True)
def _entropy(spread: float, named: int, classes: int) -> float:
    """The entropy of the text's names over that of MANY classes; twenty images' worth of 1 before any is named."""
    if named == 0 or classes < 2:
        return 1.0
    entropy = np.log(named) - spread / named
    return (WARM_UP + named * entropy / np.log(min(classes, MANY))) / (WARM_UP + named)


@njit(nogil=True)
def learn_names(
    usual: Doubles, lately: Names, counts: Names, shares: Doubles, figures: Doubles, by_text: int, by_all: int
) -> None:
    """Take in what the text and all parts name the next image."""
    if counts[IN_ALL] == LONGEST:
        _ask_anew(usual, counts, shares, figures)
    since, before = counts[SINCE_CUT], float(counts[IN_ALL])
    newest = max(1 / WINDOW, 1 / (before + WARM_UP))
    times = usual[TEXT, by_text] - WARM_UP / usual.shape[1]
    figures[SPREAD] += _times_its_log(times + 1) - _times_its_log(times)
    for who, name in enumerate((by_text, by_all)):
        if since > 0:
            unit = (before + WARM_UP) / usual[who, name]
            short, middle, long = _shares_of(name, lately[who], since)
            own = shares[who]
            foretold = own[0] + (own[1] * short + own[2] * middle + own[3] * long) * unit
            figures[who] += (np.log(foretold) - figures[who]) * newest
            learn_shares(own, short * unit, middle * unit, long * unit, before)
        usual[who, name] += 1
        lately[who, since % LAST] = name
    counts += 1


@njit(nogil=True)
def _ask_anew(usual: Doubles, counts: Names, shares: Doubles, figures: Doubles) -> None:
    """Let the names so far count half, and begin anew with whether they foretell anything (context.py)."""
    first = WARM_UP / usual.shape[1]
    usual[:] = first + (usual - first) / 2
    counts[IN_ALL] //= 2
    for own in shares:
        begin_shares(own)
    figures[SPREAD] = _spread(usual[TEXT])


@njit(nogil=True)
def _times_its_log(number: float) -> float:
    return number * np.log(number) if number > 0 else 0.0


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
