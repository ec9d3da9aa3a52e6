"""Health: what a stream notices of itself, without labels, over its last images.

Of the answers that differ from the text's, some are taken back because runs of classes speak against them (runs.py).
Where that is most of them, adapting hurts.

Two more figures ask neighbors. If answers are better than zero-shot, images that lie next to each other get the same
answer more often than the text gives them the same class (`smoothness`); and where an answer differs from the text's,
it is the one that the nearest image before it got (`support`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.compiled import code_for, njit
from trimtab.guard.admission import HELD
from trimtab.guard.book import Book

WINDOW = 256  # images that the figures speak of
LEAST = 128  # images before they say anything
FLIPS = 16  # answers that differ from the text's, before the share of them that is taken back says anything
HURTS, HELPS = 0.75, 0.5  # that share: from the first on adapting hurts, until it is below the second

ANSWER, TEXT, NEIGHBOR_ANSWER, NEIGHBOR_TEXT, AGREED, TAKEN_BACK = range(6)  # places in a row of the window

# Of a watch's book, what is noted of answers.
NOTED_FIELDS = [
    ("last_answers", np.int64, (WINDOW, 6)),
    ("said", np.int64, (2, HELD)),  # of the images that the admission holds: the stream's answers, zero-shot classes
    ("noted", np.int64, 1),  # images so far
]


@dataclass(frozen=True)
class HealthReport:
    """The figures of a stream's last images. None of them is an accuracy, which nobody can tell without labels."""

    seen: int
    images: int  # that the figures are of
    agreement: float  # share of images whose parts put nothing above the answer: the best sign of single ones
    flips: float  # share of answers that differ from zero-shot
    smoothness: float  # how much more often neighbors have equal answers than equal zero-shot classes
    support: float  # of the flips: share that the nearest image before confirms, less the share that it contradicts
    taken_back: float  # of the flips: share that runs of classes speak against, so that the text answered
    runs: float  # share of images that come in runs, by the text and by the answers: the lesser
    hurts: bool  # most flips are taken back
    collapse: float  # distance (total variation) of the answers' classes from those of the first images
    drift: float  # distance (1 - cosine) of the mean image from that of the first images
    coverage: float | None  # share of classes that hold items
    age: float | None  # median age of the items held, in images
    refused: dict[str, int]  # images not learned since the start, by reason
    restarts: int  # how often everything was forgotten
    falls: int  # how often zero-shot took over
    fallen: bool  # whether answers are zero-shot's now
    returns: int  # how often a snapshot was put back


class Health:
    """The last answers, and what the first images were like."""

    def __init__(self, classes: int, dim: int, book: Book) -> None:
        self.window: NDArray[np.int64] = book["last_answers"][0]
        book["said"] = -1
        self.answers, self.texts = book["said"][0]
        # Of the first images: their answers, and the sum of their features, in one array.
        self.first: Doubles = np.zeros(classes + dim)
        self.first_answers, self.first_sum = self.first[:classes], self.first[classes:]
        self.count: NDArray[np.int64] = book["noted"][0]
        self._code: Callable[..., float] | None = None  # of the loop that counts what is taken back

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("window", "texts", "answers", "first_answers", "first_sum", "count")
        return {name: getattr(self, name) for name in names}

    def known(self) -> NDArray[np.int64]:
        """The rows of the window that are in use."""
        return self.window[: min(int(self.count[0]), WINDOW)]

    def smoothness(self) -> float:
        """How much more often neighbors have equal answers than equal zero-shot classes."""
        rows = self.known()
        if len(rows) == 0:
            return 0.0
        by_answer = rows[:, ANSWER] == rows[:, NEIGHBOR_ANSWER]
        by_text = rows[:, TEXT] == rows[:, NEIGHBOR_TEXT]
        return float(by_answer.mean() - by_text.mean())

    def support(self) -> float:
        """Of the answers that differ from zero-shot: the share that neighbors confirm, less that they contradict."""
        rows = self.known()
        flips = rows[rows[:, ANSWER] != rows[:, TEXT]]
        if len(flips) == 0:
            return 1.0
        confirmed = flips[:, NEIGHBOR_ANSWER] == flips[:, ANSWER]
        contradicted = flips[:, NEIGHBOR_ANSWER] == flips[:, TEXT]
        return float(confirmed.mean() - contradicted.mean())

    def taken_back(self) -> float:
        """Of the answers that differ from zero-shot: the share that is taken back; 0 where there are few."""
        arguments = self.window, self.count
        self._code = self._code or code_for(_taken_back, *arguments)
        return self._code(*arguments)

    def hurts(self) -> bool:
        """Whether adapting does harm, as far as can be told."""
        return bool(self.count[0] >= LEAST and self.taken_back() >= HURTS)

    def helps(self) -> bool:
        """Whether it does none any more: what brings the adapted answers back. Between the two, all stays as it is."""
        return self.taken_back() < HELPS

    def collapse(self) -> float:
        """Total variation between the classes of the last answers and those of the first."""
        rows = self.known()
        if len(rows) == 0:
            return 0.0
        last = np.bincount(rows[:, ANSWER], minlength=len(self.first_answers)) / len(rows)
        return float(np.abs(last - self.first_answers / self.first_answers.sum()).sum() / 2)

    def drift(self, held: NDArray[np.float32]) -> float:
        """1 - cosine between the mean of the images held and that of the first."""
        now = held.mean(axis=0) if len(held) else self.first_sum
        lengths = np.linalg.norm(now) * np.linalg.norm(self.first_sum)
        return float(1 - now @ self.first_sum / lengths) if lengths > 0 else 0.0


@njit(nogil=True)
def _taken_back(window: NDArray[np.int64], count: NDArray[np.int64]) -> float:
    flips = taken_back = 0
    for row in range(min(count[0], len(window))):
        flips += window[row, ANSWER] != window[row, TEXT]
        taken_back += window[row, TAKEN_BACK]
    return taken_back / flips if flips >= FLIPS else 0.0


@njit(nogil=True)
def note(
    plain: Array,
    text: int,
    answer: int,
    agreed: bool,
    taken_back: bool,
    place: int,
    near: int,
    book: Book,
    first: Doubles,
) -> None:
    """Take in the method's answer to an image (d,), and where admission held it."""
    known = book[0]
    window, count, held_answers, held_texts = known["last_answers"], known["noted"], known["said"][0], known["said"][1]
    entry = window[count[0] % len(window)]
    entry[ANSWER], entry[TEXT] = answer, text
    entry[NEIGHBOR_ANSWER] = held_answers[near] if near >= 0 else answer
    entry[NEIGHBOR_TEXT] = held_texts[near] if near >= 0 else text
    entry[AGREED], entry[TAKEN_BACK] = agreed, taken_back
    held_answers[place], held_texts[place] = answer, text
    if count[0] < len(window):
        first[answer] += 1
        first_sum = first[len(first) - len(plain) :]
        for k in range(len(plain)):
            first_sum[k] += plain[k]
    count[0] += 1
