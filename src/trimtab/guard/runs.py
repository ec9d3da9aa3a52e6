"""Runs: whether classes come in runs, and which adapted answers that speaks against.

Methods fall farthest below zero-shot where classes arrive in runs (sorted, bursts, one camera after the other). The
same runs tell which answers to take back.

* recent(c) is how often the text named c among the last 16 images, usual(c) how often among the last 1,000; their ratio
  is c's lift. What the text always prefers, it prefers in both.
* Does it pay to know the lifts? They are a forecast of the next image's text. Its log-likelihood, summed over the last
  images, is the evidence that there are runs. The same is asked of the method's answers, and the lesser counts: where
  images change, the text's preferences do too, at once and for all classes, and its answers alone would look like runs.
  On shuffled streams there is next to none, and next to nothing is taken back.
* An answer a that differs from the text's class t is taken back if
      log p(a) - log p(t) + 2 (log lift(a) - log lift(t)) < 0,
  lifts as far as there is evidence. Twice, because the text's soft probabilities blur them.

The text's probabilities are those at a scale that the stream gives (engine/temper.py), and the method's log-ratio is
brought to it, so that no logit scale matters. Images that are not learned from are judged, and do not count.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of, softmax_in_place
from trimtab.engine.temper import FIRST_SPREAD, next_log_scale

RECENT = 16.0  # images that lifts speak of
USUAL = 1000.0  # images that "usual" speaks of
PRIOR_IMAGES = 60.0  # images' worth of equal classes that "usual" begins with
EVENLY = 0.01  # share of equal classes in what is usual: no class is ever impossible
CAUTION = 8.0  # images' worth of usual classes in what is recent
FADING = 0.99  # of the evidence, per image
HANDICAP = 0.03  # of the forecast, per image: chance alone is no evidence
NO_RUNS = 5.0  # how many times likelier no runs are than runs, before any image
MOST = 12.0  # evidence is kept within plus and minus this
WEIGHT = 2.0  # of lifts against the method's own log-ratio
LEAST = 1e-4  # probabilities below are taken as this

SEEN, LOG_SCALE, COUNT, TEXT_EVIDENCE, ANSWER_EVIDENCE = range(5)  # places in the array of figures
TEXT, ANSWERS = range(2)  # rows of what is counted


class Runs:
    """How often each class was named recently and usually, and the evidence for runs. All of it is saved."""

    def __init__(self, classes: int) -> None:
        self.recent: Array = np.zeros((2, classes), np.float32)  # sums of text probabilities, and of answers, fading
        self.usual: Array = np.full((2, classes), 1 / classes, np.float32)  # their means
        self.figures: Doubles = np.zeros(5)

    def arrays(self) -> Arrays:
        """What is saved."""
        return {"recent": self.recent, "usual": self.usual, "figures": self.figures}

    def cut(self) -> None:
        """What comes next has nothing to do with what came before: nothing is recent."""
        self.recent[:] = self.usual * np.float32(self.figures[COUNT])

    @property
    def share(self) -> float:
        """How probable it is that classes come in runs."""
        return float(_share(self.figures))

    def take_in(self, block: Block, rows: slice, answers: Array, learned: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(n,): which answers (n, C) to some images of a block are taken back; images learned from then count."""
        taken_back = np.zeros(len(answers), np.bool_)
        _take_in(
            block.logits[rows],
            block.logit_scales[rows],
            answers,
            learned,
            self.recent,
            self.usual,
            self.figures,
            taken_back,
        )
        return taken_back


@njit(nogil=True)
def _share(figures: Doubles) -> float:
    return 1 / (1 + NO_RUNS * np.exp(-min(figures[TEXT_EVIDENCE], figures[ANSWER_EVIDENCE])))


@njit(nogil=True)
def _lift(ratio: float, count: float) -> float:
    """From what is recent over what is usual: a class's, or a mean over classes."""
    return (ratio + CAUTION) / (count + CAUTION)


@njit(nogil=True)
def _with_forecast(evidence: float, forecast: float) -> float:
    """The evidence after an image that the lifts made so many times likelier."""
    return min(max(FADING * evidence + np.log(max(forecast, 1e-6)) - HANDICAP, -MOST), MOST)


@njit(fastmath=VECTORIZE, nogil=True)
def _take_in(
    logits: Array,
    scales: Array,
    answers: Array,
    learned: NDArray[np.bool_],
    recent: Array,
    usual: Array,
    figures: Doubles,
    taken_back: NDArray[np.bool_],
) -> None:
    probabilities = np.empty(logits.shape[1], np.float32)
    for row in range(len(answers)):
        text, answer = logits[row], answers[row]
        named, said = best_of(text), best_of(answer)
        log_scale = figures[LOG_SCALE]
        if figures[SEEN] == 0:
            log_scale = np.log(FIRST_SPREAD * scales[row] / max(text.std(), 1e-6))
        sharper = np.float32(np.exp(log_scale) / scales[row])  # the stream's scale over the method's
        if named != said:
            ratio = np.log(max(answer[said], LEAST)) - np.log(max(answer[named], LEAST))
            share, count = _share(figures), figures[COUNT]
            for_answer = np.log(1 - share + share * _lift(recent[TEXT, said] / usual[TEXT, said], count))
            for_text = np.log(1 - share + share * _lift(recent[TEXT, named] / usual[TEXT, named], count))
            taken_back[row] = sharper * ratio + WEIGHT * (for_answer - for_text) < 0
        if not learned[row]:
            continue
        for c in range(len(text)):
            probabilities[c] = sharper * text[c]
        softmax_in_place(probabilities)
        forecast = np.float32(0)
        for c in range(len(text)):
            forecast += probabilities[c] * recent[TEXT, c] / usual[TEXT, c]
        of_text = _lift(float(forecast), figures[COUNT])
        of_answer = _lift(recent[ANSWERS, said] / usual[ANSWERS, said], figures[COUNT])
        figures[TEXT_EVIDENCE] = _with_forecast(figures[TEXT_EVIDENCE], of_text)
        figures[ANSWER_EVIDENCE] = _with_forecast(figures[ANSWER_EVIDENCE], of_answer)
        figures[LOG_SCALE] = next_log_scale(log_scale, figures[SEEN], probabilities[named])
        figures[SEEN] += 1
        rate, fading = np.float32(1 / min(figures[SEEN] + PRIOR_IMAGES, USUAL)), np.float32(1 - 1 / RECENT)
        evenly, rest = np.float32(EVENLY / len(text)), np.float32(1 - EVENLY)
        for c in range(len(text)):
            usual[TEXT, c] += rate * (rest * probabilities[c] + evenly - usual[TEXT, c])
        for c in range(len(text)):
            recent[TEXT, c] = fading * recent[TEXT, c] + probabilities[c]
        for c in range(len(text)):
            usual[ANSWERS, c] += rate * (evenly - usual[ANSWERS, c])
        for c in range(len(text)):
            recent[ANSWERS, c] *= fading
        usual[ANSWERS, said] += rate * rest
        recent[ANSWERS, said] += 1
        figures[COUNT] += 1 - figures[COUNT] / RECENT
