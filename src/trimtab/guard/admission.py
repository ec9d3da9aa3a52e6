"""Admission: what is kept of a stream to judge its images by, before the method sees them and once more later.

The rules are in judging.py; second_look.py has the later look.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles, aligned_zeros
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for
from trimtab.guard.judging import GAPLESS, JUDGED, LEARNED, RENEWED, hold, judge
from trimtab.guard.rules import Guard
from trimtab.guard.second_look import count_beyond, newly_beyond
from trimtab.guard.sources import NO_SOURCE
from trimtab.guard.verdicts import Diary

HELD = 128  # images that others are compared with: the last that were no duplicates, learned or not
WINDOW = 128  # images that the medians speak of
ORIGINS = 256  # images learned whose sources are counted for a quota
RECORD = 2048  # images learned whose figures are kept, to be judged again later


class Admission:
    """Running figures of a stream, and the last images learned. All of it is arrays, saved with the state."""

    def __init__(self, dim: int, guard: Guard) -> None:
        self._strange, self._floor = guard.strange, guard.floor
        self._limits = (guard.duplicates, guard.gap, guard.strange, guard.floor, guard.quota)
        self.held: Array = aligned_zeros((HELD, dim))
        self.window: Doubles = np.zeros((WINDOW, 5))  # HIGHEST, MEAN, SPREAD, NEARNESS, ALONE of the last images
        self.medians: Doubles = np.zeros((2, 5))  # of the window: medians, and median absolute deviations
        self.record: Doubles = np.zeros((RECORD, 3))  # HIGHEST, MEAN, ALONE of the last images learned
        self.origins = np.full(ORIGINS, NO_SOURCE, np.int64)  # the sources of the last images learned
        self.counts = np.zeros(3, np.int64)
        self.found = np.zeros((2, 0), np.int64)  # of the images judged last: see `judge`
        self._known = (self.held, self.window, self.medians, self.record, self.origins, self.counts)
        self.untold = 0  # see `judge_again`
        # For a single image: its products, and what is found; fresh arrays take longer than to fill them.
        self._room: Array = np.empty((1, HELD), np.float32)
        self._found, self._learned = np.zeros((2, 1), np.int64), np.zeros(1, np.bool_)
        # Of the loops that judge a block, that hold its images, and that judge what was learned again.
        self._judge: Callable[..., None] | None = None
        self._hold: Callable[..., None] | None = None
        self._again: Callable[..., tuple[int, int]] | None = None

    def arrays(self) -> Arrays:
        """What is saved."""
        names = ("held", "window", "medians", "record", "origins", "counts")
        return {name: getattr(self, name) for name in names}

    def judge(self, block: Block, sources: NDArray[np.int64], doubts: Doubles, diary: Diary) -> NDArray[np.bool_]:
        """(B,): whether each image of a block may be learned from, judged by those before it; the diary says why.

        `doubts` (B,) are the probabilities that they show none of the classes. `found` (2, B) then says where each
        image goes in `held`, and which of those before it was nearest; -1: none. One alone is there at once, several
        with `hold`: a block may be broken off. What is told of one alone is true until the next.
        """
        plain = block.plain
        if len(plain) == 1:
            near = among = self._room  # the first is found on the way, the other unused
            self.found, learned = self._found, self._learned
        else:
            near = self.held @ plain.T  # a twentieth of a verdict faster than the other way round
            among = block.among if block.asks_plain else plain @ plain.T
            self.found, learned = np.empty((2, len(plain)), np.int64), np.empty(len(plain), np.bool_)
        arguments = (
            plain,
            block.cosines,
            block.task.text_prototypes if block.text is None else block.text,
            near,
            among,
            sources,
            doubts,
            self._limits,
            self._known,
            block.first,
            diary,
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
