"""Watch: a guard at work on one stream. The stream asks it before each block, and tells it what was answered."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Arrays, Doubles
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block
from trimtab.errors import TrimtabError
from trimtab.guard.admission import BEYOND, HELD, JUDGED, NEAREST, NO_SOURCE, TO_TEXT, Admission, Verdict
from trimtab.guard.neighbors import contradicted
from trimtab.guard.rules import Guard
from trimtab.task import Task

STRETCH = 64  # images between two looks back; blocks end there, so that one image at a time gives the same
SLOTS_PER_LOOK = 10  # items that may be compared with their neighbors for each image that came
DIARY = 4096  # images whose verdicts are kept
LOG = 32768  # images learned whose sources are kept


class Watch:
    """What a guard keeps of one stream: arrays, saved with the state."""

    def __init__(self, guard: Guard, task: Task) -> None:
        self.guard = guard
        self.admission = Admission(task.dim, guard)
        self.answers = np.full(HELD, -1, np.int64)  # what the stream said of the images that the admission holds
        self.verdicts = np.zeros(DIARY, np.int8)
        self.details: Doubles = np.zeros((DIARY, 3))
        self.sources = np.full((LOG, 2), NO_SOURCE, np.int64)  # position and source of images learned
        self.counts = np.zeros(len(Verdict), np.int64)  # images by their verdict
        self.events = np.zeros(3, np.int64)  # restarts, items contradicted, sources logged
        self._before: Arrays = {}

    def arrays(self) -> Arrays:
        """Everything that is saved."""
        found: Arrays = {f"admission.{name}": array for name, array in self.admission.arrays().items()}
        names = ("answers", "verdicts", "details", "sources", "counts", "events")
        return {**found, **{name: getattr(self, name) for name in names}}

    def judge(self, block: Block, sources: NDArray[np.int64]) -> NDArray[np.int8]:
        """(B,): the verdict on each image of a block."""
        if len(block) > 1:  # of one image nothing can be left half done
            self._before = {name: array.copy() for name, array in self.arrays().items() if name not in _LATER}
        verdicts = np.zeros(len(block), np.int8)
        details = self.admission.judge(block, sources, verdicts)
        places = np.arange(block.first, block.first + len(block)) % DIARY
        self.verdicts[places], self.details[places] = verdicts, details
        self.counts += np.bincount(verdicts, minlength=len(self.counts))
        return verdicts

    def answered(self, block: Block, sources: NDArray[np.int64], answers: Sequence[int]) -> None:
        """The answers to a block's images; fewer than there are if it was broken off: then know only those."""
        if len(answers) < len(block) and len(block) > 1:
            for name, array in self.arrays().items():
                if name not in _LATER:
                    array[...] = self._before[name]
            block = Block(block.task, block.views[: len(answers)], block.first, text=block.text)
            if answers:
                self.judge(block, sources[: len(answers)])
        if not answers:
            return
        said, places = np.asarray(answers, np.int64), self.admission.places
        self.answers[places[places >= 0]] = said[places >= 0]
        for row in np.flatnonzero(sources[: len(said)] != NO_SOURCE):
            position = block.first + int(row)
            if self.verdicts[position % DIARY] == Verdict.LEARNED:
                self.sources[self.events[2] % LOG] = position, sources[row]
                self.events[2] += 1

    def has_to_start_over(self) -> bool:
        """Whether too much of what was learned would not be learned now."""
        limit = self.guard.start_over
        if not limit or self.admission.learned_strangely() <= limit:
            return False
        self.admission.forget_record()
        self.events[0] += 1
        return True

    def contradicted(self, bank: Bank, seen: int) -> NDArray[np.bool_] | None:
        """The items of a bank that their neighbors contradict, when it is time to ask."""
        interval = STRETCH * max(4, -(-bank.sources.size // (STRETCH * SLOTS_PER_LOOK)))
        if not self.guard.contradicted or seen % interval:
            return None
        known = min(int(self.admission.counts[JUDGED]), HELD)
        images, answers = self.admission.held[:known], self.answers[:known]
        gone = contradicted(bank, images, answers, int(self.guard.contradicted), self.guard.duplicates)
        self.events[1] += int(gone.sum())
        return gone

    def positions_of(self, source: str) -> NDArray[np.int64]:
        """Which images of a source were learned, as far as is known."""
        return self.sources[self.sources[:, 1] == source_number(source), 0]

    def refused(self, position: int) -> bool:
        """Whether an image, one of the last, was not learned."""
        return bool(self.verdicts[position % DIARY] != Verdict.LEARNED)

    def why(self, position: int, seen: int) -> str:
        """Why an image was learned from or not, in a sentence."""
        if not max(0, seen - DIARY) <= position < seen:
            known = f"images {max(0, seen - DIARY)} to {seen - 1}" if seen else "no image yet"
            raise TrimtabError(f"Nothing is known of image {position}; the guard remembers {known}.")
        details, guard = self.details[position % DIARY], self.guard
        verdict = Verdict(int(self.verdicts[position % DIARY]))
        if verdict == Verdict.DUPLICATE:
            return f"Not learned: a near-duplicate (cosine {details[NEAREST]:.4f}) of an image shortly before."
        if verdict == Verdict.STRANGE:
            return (
                f"Not learned: strange. It is {details[TO_TEXT]:.2f} times as near to its best text as to other images "
                f"(limit {guard.gap:g}), and {details[BEYOND]:.1f} deviations nearer to texts than usual "
                f"(limit {guard.strange:g})."
            )
        if verdict == Verdict.QUOTA:
            return f"Not learned: its source has sent more than {guard.quota:.0%} of the last images learned."
        if verdict == Verdict.UNKNOWN:
            return "Not learned: it seems to show none of the classes."
        return "Learned."


_LATER = frozenset({"answers", "sources"})  # written once the answers are there


def source_numbers(sources: Sequence[str | None] | None, images: int) -> NDArray[np.int64]:
    """(N,): the sources of N images as numbers."""
    if sources is None:
        return np.full(images, NO_SOURCE, np.int64)
    if isinstance(sources, str) or len(sources) != images:
        raise TrimtabError(f"sources must name one source (or None) for each of the {images} images.")
    known = {source: source_number(source) for source in set(sources)}
    return np.array([known[source] for source in sources], np.int64)


def source_number(source: str | None) -> int:
    """A source's name as a number, the same in every process."""
    if source is None:
        return NO_SOURCE
    arguments.text("a source", source)
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "little") >> 1
