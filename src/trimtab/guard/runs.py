"""Runs: which adapted answers to take back because of what the text has just been saying.

Methods fall farthest below zero-shot where classes arrive in runs (sorted, bursts, one camera after the other). The
same runs tell which answers to take back: a class that the text did not name shortly before, more than it always does,
is unlikely to be there now. `fusion.context` says how much each class is to be expected, here by the text alone, which
no memory has a part in.

* The lift of a class is how many times as much as usual it is expected, as far as classes come in runs: both in what
  the text says and in what the method answers, and the lesser share counts. Where images change, the text's preferences
  change at once, for all classes and for good, which alone would look like a run.
* An answer a that differs from the text's class t is taken back if

      log p(a) - log p(t) + 3 (log lift(a) - log lift(t)) < 0.

  Three times, because the text's soft probabilities blur lifts. On shuffled streams next to nothing is taken back.

The text's probabilities are those at a scale that the stream gives (engine/temper.py), and the method's log-ratio is
brought to it, so that no logit scale matters. Images that are not learned from are judged, and do not count.
"""

import numpy as np

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, exp
from trimtab.engine.state import fill
from trimtab.engine.temper import FIRST_SPREAD, next_log_scale
from trimtab.fusion.context import Context, learn_context
from trimtab.fusion.loops import total_of

WEIGHT = 3.0  # of lifts against the method's own log-ratio
LEAST = 1e-4  # probabilities below are taken as this

SEEN, LOG_SCALE = range(2)  # places in the array of figures

# As compiled loops take them, in two arrays, because each costs a step as much as a sum over a hundred classes: of the
# text's context and of the answers' the sums and the means (2, K + 1, C); the shares of both, and the figures.
Tables = tuple[Doubles, Doubles]
Rooms = tuple[Array, Doubles, Doubles]  # of C numbers each, for `take_in` to write in; the last are ones


class Runs:
    """What the text and the method have said lately and usually. All of it is saved."""

    def __init__(self, classes: int) -> None:
        self.text, self.answers = Context(classes), Context(classes)
        horizons = len(self.text.shares)
        self._said, self._small = np.empty((2, horizons, classes)), np.zeros(2 * horizons + 2)
        self.text.lie_in(self._said[0], self._small[:horizons])
        self.answers.lie_in(self._said[1], self._small[horizons:-2])
        self.figures: Doubles = self._small[-2:]

    def arrays(self) -> Arrays:
        """What is saved."""
        said = {"text": self.text, "answers": self.answers}
        found: Arrays = {f"{who}.{name}": array for who, each in said.items() for name, array in each.arrays().items()}
        return {**found, "scale": self.figures}

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.text.cut()
        self.answers.cut()

    def start_over(self) -> None:
        """What was said so far was said among crafted images: forget all of it."""
        fill(self.arrays(), Runs(len(self.text.sums)).arrays())

    @property
    def share(self) -> float:
        """The share of images that come in runs."""
        return min(self.text.in_runs, self.answers.in_runs)

    def tables(self) -> Tables:
        """The arrays as compiled loops take them."""
        return self._said, self._small


@njit(nogil=True)
def _parts_of(small: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """The shares of the text's context and of the answers', and the figures."""
    horizons = len(small) // 2 - 1
    return small[:horizons], small[horizons:-2], small[-2:]


@njit(nogil=True)
def _log_lift(c: int, images: float, sums: Doubles, recent: Doubles, shares: Doubles, in_runs: float) -> float:
    """Of one class, with `images` the total of the sums; 0 to the bit after a cut."""
    expected = shares[0]
    for horizon in range(len(recent)):
        expected += shares[horizon + 1] * recent[horizon, c] * images / sums[c]
    return float(np.log(np.float32(1 + in_runs * (expected - 1))))


@njit(nogil=True)
def speaks_against(text: Array, scale: float, answer: Array, named: int, given: int, runs: Tables) -> bool:
    """Whether an answer (C,), of the class `given`, is taken back for the class that the text's logits (C,) name."""
    if named == given:
        return False
    sums, recent = runs[0][0, 0], runs[0][0, 1:]
    shares, of_answers, figures = _parts_of(runs[1])
    ratio = np.log(max(answer[given], LEAST)) - np.log(max(answer[named], LEAST))
    images, in_runs = total_of(sums), 1 - max(shares[0], of_answers[0])
    for_answer = _log_lift(given, images, sums, recent, shares, in_runs)
    for_text = _log_lift(named, images, sums, recent, shares, in_runs)
    return bool(_sharper(text, scale, figures) * ratio + WEIGHT * (for_answer - for_text) < 0)


@njit(nogil=True)
def _sharper(text: Array, scale: float, figures: Doubles) -> float:
    """The stream's logit scale over the method's."""
    if figures[SEEN] == 0:
        return FIRST_SPREAD / max(text.std(), 1e-6)
    return np.exp(figures[LOG_SCALE]) / scale


@njit(fastmath=VECTORIZE, nogil=True)
def take_in(text: Array, scale: float, answer: Array, named: int, runs: Tables, room: Rooms) -> None:
    """Let an image count for those that come: what the text says of it (C,) logits, and the answer (C,)."""
    (contexts, small), (ratios, said, as_it_is) = runs, room
    horizons, figures = contexts.shape[1], small[-2:]
    sharper, highest, total = _sharper(text, scale, figures), text[named], np.float32(0)
    for c in range(len(text)):
        ratios[c] = np.float32(sharper) * (text[c] - highest)
    for c in range(len(text)):  # in place: see `kernels.softmax_in_place`
        ratios[c] = exp(ratios[c])
        total += ratios[c]
    figures[LOG_SCALE] = next_log_scale(np.log(sharper * scale), figures[SEEN], float(1 / total), len(text))
    for who in range(len(contexts)):  # in a loop: half the code, which a step finds in no cache
        now = ratios if who == 0 else answer  # of the probabilities to the highest: what is said may have any unit
        for c in range(len(text)):
            said[c] = now[c]
        context, shares = contexts[who], small[who * horizons : (who + 1) * horizons]
        learn_context(context[0], context[1:], shares, as_it_is, said, figures[SEEN])
    figures[SEEN] += 1
