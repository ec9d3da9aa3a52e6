"""Admission: what is kept of a stream to judge its images by, before the method sees them and once more later.

The rules are in judging.py; second_look.py has the later look.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles, aligned_zeros
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for
from trimtab.guard.book import Book
from trimtab.guard.judging import GAPLESS, JUDGED, LEARNED, RENEWED, hold, judge
from trimtab.guard.rules import Guard
from trimtab.guard.second_look import count_beyond, newly_beyond
from trimtab.guard.sources import NO_SOURCE
from trimtab.guard.verdicts import Verdict

HELD = 128  # images that others are compared with: the last that were no duplicates, learned or not
WINDOW = 128  # images that the medians speak of
ORIGINS = 256  # images, learned or held back by a quota, whose sources are counted for it
RECORD = 2048  # images learned whose figures are kept, to be judged again later
DIARY = 2048  # images whose verdicts are kept

# Of a watch's book, what judging changes.
JUDGED_FIELDS = [
    ("window", np.float64, (WINDOW, 5)),  # HIGHEST, MEAN, SPREAD, NEARNESS, ALONE of the last images
    ("medians", np.float64, (2, 5)),  # of the window: medians, and median absolute deviations
    ("record", np.float64, (RECORD, 3)),  # HIGHEST, MEAN, ALONE of the last images learned
    ("origins", np.int64, ORIGINS),  # the sources of the last images learned, among those that a quota held back
    ("counts", np.int64, 3),
    ("verdicts", np.int8, DIARY),  # of the last images, a ring; as are the next
    ("details", np.float64, (DIARY, 4)),
    ("by_verdict", np.int64, len(Verdict)),  # how many images there were of each
]


class Admission:
    """Running figures of a stream, and the last images learned. All of it is arrays, saved with the state."""

    def __init__(self, dim: int, guard: Guard, book: Book) -> None:
        self._strange, self._floor = guard.strange, guard.floor
        self._limits = (guard.duplicates, guard.gap, guard.strange, guard.floor, guard.quota)
        self.held: Array = aligned_zeros((HELD, dim))
        self._book = book
        self.window: Doubles = book["window"][0]
        self.medians: Doubles = book["medians"][0]
        self.record: Doubles = book["record"][0]
        self.origins: NDArray[np.int64] = book["origins"][0]
        self.origins[:] = NO_SOURCE
        self.counts: NDArray[np.int64] = book["counts"][0]
        self.found = np.zeros((4, 0), np.int64)  # of the images judged last: see `judge`
        self.untold = 0  # see `judge_again`
        # For a single image: its products, and what is found; fresh arrays take longer than to fill them.
        self._room: Array = np.empty((1, HELD), np.float32)
        self._found, self._learned = np.zeros((4, 1), np.int64), np.zeros(1, np.bool_)
        # Of the loops that judge a block, that hold its images, and that judge what was learned again.
        self._judge: Callable[..., None] | None = None
        self._hold: Callable[..., None] | None = None
        self._again: Callable[..., tuple[int, int]] | None = None

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("held", "window", "medians", "record", "origins", "counts")
        return {name: getattr(self, name) for name in names}

    def judge(self, block: Block, sources: NDArray[np.int64], doubts: Doubles) -> NDArray[np.bool_]:
        """(B,): whether each image of a block may be learned from, judged by those before it; the book says why.

        `doubts` (B,) are the probabilities that they show none of the classes. `found` (4, B) then says where each
        image goes in `held`, and what else its answer is heard with. One alone is held at once, several with `hold`: a
        block may be broken off. What is told of one alone is true until the next.
        """
        plain = block.plain
        if len(plain) == 1:
            near = among = self._room  # the first is found on the way, the other unused
            self.found, learned = self._found, self._learned
        else:
            near = self.held @ plain.T  # a twentieth of a verdict faster than the other way round
            among = block.among if block.asks_plain else plain @ plain.T
            self.found, learned = np.empty((4, len(plain)), np.int64), np.empty(len(plain), np.bool_)
        arguments = (
            plain,
            block.cosines,
            block.task.text_prototypes if block.text is None else block.text,
            near,
            among,
            sources,
            doubts,
            self._limits,
            self.held,
            self._book,
            block.first,
            self.found,
            learned,
        )
        self._judge = self._judge or code_for(judge, *arguments)
        self._judge(*arguments)
        return learned

    def hold(self, block: Block) -> None:
        """Hold the images of the block judged last, all of which were answered."""
        arguments = block.plain, self.found, self.held
        self._hold = self._hold or code_for(hold, *arguments)
        self._hold(*arguments)

    def judge_again(self) -> float:
        """The share of the images on record, all learned, that would not be learned now.

        `untold` is then how many of these `newly_strange` was not yet asked for.
        """
        known = int(self.counts[LEARNED])
        if known == 0 or self._strange == 0 or self.counts[JUDGED] < RENEWED:
            self.untold = 0
            return 0.0
        arguments = self.record, self.counts, self.medians, self._strange, self._floor
        self._again = self._again or code_for(count_beyond, *arguments)
        beyond, self.untold = self._again(*arguments)
        return beyond / min(known, RECORD)

    def newly_strange(self, verdicts: NDArray[np.int8], seen: int) -> NDArray[np.int64]:
        """The positions of images on record that would not be learned now, each told once; `verdicts` are a ring."""
        self.untold = 0
        return newly_beyond(
            self.record, int(self.counts[LEARNED]), self.medians, self._strange, self._floor, verdicts, seen
        )

    def forget_record(self) -> None:
        """What was learned is no longer there: judge only what is learned from now on.

        That the encoder knows no gap was learned from the same images.
        """
        self.record[:] = 0
        self.origins[:] = NO_SOURCE
        self.counts[LEARNED] = self.counts[GAPLESS] = self.untold = 0
