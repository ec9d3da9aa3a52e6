"""Watch: a guard at work on one stream. The stream asks it before each block, and tells it what was answered."""

import logging
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block
from trimtab.engine.compiled import code_for, njit
from trimtab.engine.equations import softmax
from trimtab.engine.kernels import best_of, highest_of
from trimtab.errors import TrimtabError
from trimtab.guard.admission import DIARY, HELD, JUDGED_FIELDS, Admission
from trimtab.guard.before import Before
from trimtab.guard.book import Book
from trimtab.guard.figures import figures_of
from trimtab.guard.health import AGREED, ANSWER, NOTED_FIELDS, TEXT, Health, HealthReport, note
from trimtab.guard.judging import CLOSER, JUDGED, LEARNS, NEIGHBOR, PLACE, SENDER
from trimtab.guard.neighbors import Neighbors
from trimtab.guard.rules import Guard
from trimtab.guard.runs import Runs, Tables, speaks_against, take_in
from trimtab.guard.sources import NO_SOURCE, source_number
from trimtab.guard.unknown import Unknown
from trimtab.guard.verdicts import APART, BEYOND, NEAREST, TO_TEXT, Verdict
from trimtab.task import Task

_log = logging.getLogger(__name__)

STRETCH = 64  # images between two looks back; blocks end there, so that one image at a time gives the same
LOG = 32768  # images whose sources are kept
REFUSED = LOG - DIARY  # from here on of the last images refused: however many they are, they hide nothing learned
PATIENCE = 512  # images for which zero-shot answers before a snapshot is put back

NAMES = ("verdicts", "details", "taken_back", "sources", "counts", "events")  # the watch's own arrays
NO_IMAGES = np.zeros(0, np.int64)
NO_DOUBT: Doubles = np.zeros(1)  # about a single image
# Places in the array of events.
RESTARTS, CONTRADICTED, LOGGED, FALLEN, SINCE, FALLS, RETURNS = range(7)

BOOK = np.dtype(
    [
        *JUDGED_FIELDS,
        *NOTED_FIELDS,
        ("taken_back", np.uint8, DIARY),  # whether the text answered instead of the method
        ("log", np.int64, (LOG, 2)),  # position and source: a ring of images learned, and one of images refused
        ("events", np.int64, 7),
    ],
    align=True,
)


class Watch:
    """What a guard keeps of one stream: arrays, saved with the state."""

    def __init__(self, guard: Guard, task: Task) -> None:
        self.guard = guard
        self._book: Book = np.zeros(1, BOOK)
        self.admission = Admission(task.dim, guard, self._book)
        self.unknown = Unknown()
        self.neighbors = Neighbors(int(guard.contradicted))
        self.health = Health(task.classes, task.dim, self._book)
        self.runs = Runs(task.classes)
        self.verdicts: NDArray[np.int8] = self._book["verdicts"][0]
        self.details: Doubles = self._book["details"][0]
        self.taken_back: NDArray[np.bool_] = self._book["taken_back"][0].view(np.bool_)
        self.sources: NDArray[np.int64] = self._book["log"][0]
        self.sources[:] = NO_SOURCE
        self.counts: NDArray[np.int64] = self._book["by_verdict"][0]
        self.events: NDArray[np.int64] = self._book["events"][0]
        self.doubts: Doubles = np.zeros(0)  # of the images judged last: the probability that they show no class
        self._figures: Doubles = np.zeros((0, 5))
        self._before = Before(self._book)
        # As compiled loops take them.
        self._held = self.admission.held, self.health.answers, self.admission.counts
        self._runs = self.runs.tables()
        self._code: Callable[..., int] | None = None  # of the loop that hears answers

    def arrays(self) -> Arrays:
        """Everything that is saved."""
        found: Arrays = {name: getattr(self, name) for name in NAMES}
        for part in ("admission", "unknown", "health", "runs"):
            found |= {f"{part}.{name}": array for name, array in getattr(self, part).arrays().items()}
        return found

    def judge(self, block: Block, sources: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(B,): whether each image of a block may be learned from."""
        count = len(block)
        if count > 1:
            self._before.keep(block.first, count)
        if self.guard.unknown:
            self._figures = figures_of(block)
            self.doubts = self.unknown.probabilities(self._figures)
        else:
            self.doubts = NO_DOUBT if count == 1 else np.zeros(count)
        return self.admission.judge(block, sources, self.doubts)

    def doubt_about(self, block: Block) -> float:
        """How probably a block's only image shows none of the classes; 0 where nobody asked."""
        return float(self.unknown.probabilities(figures_of(block))[0]) if self.guard.unknown else 0.0

    def hear(self, block: Block, rows: slice, parts: Mapping[str, Array], answers: Array) -> Array:
        """(n, C): the answers to some images of a block, the text's where the method's are taken back."""
        arguments = (
            block.plain,
            block.logits,
            block.logit_scales,
            rows.start,
            tuple([np.ascontiguousarray(part, np.float32) for part in parts.values()]),
            np.ascontiguousarray(answers, np.float32),
            self.admission.found,
            self._book,
            self.health.first,
            self._runs,
            self.guard.fall_back,
            block.first,
        )
        self._code = self._code or code_for(_hear, *arguments)
        by_text = self._code(*arguments)
        if by_text == 0:
            return answers
        if by_text == len(answers):
            return zero_shot(block, rows)
        steadied = answers.copy()
        for row in np.flatnonzero(
            self.taken_back[np.arange(block.first + rows.start, block.first + rows.stop) % DIARY]
        ):
            steadied[row] = zero_shot(block, slice(rows.start + row, rows.start + row + 1))[0]
        return steadied

    def finish(self, block: Block, sources: NDArray[np.int64], done: int) -> None:
        """So many images of a block were answered; fewer than there are if it was broken off: then know only those."""
        count = len(block)
        if done < count and count > 1:
            self._before.put_back()
            block = Block(block.task, block.views[:done], block.first, text=block.text)
            if done:
                self.judge(block, sources[:done])
        if done and count > 1:
            self.admission.hold(block)
        if done and self.guard.unknown:
            self.unknown.take_in(self._figures)

    @property
    def fallen(self) -> bool:
        """Whether answers are zero-shot's, because adapting hurts."""
        return bool(self.events[FALLEN])

    def look_back(self, seen: int) -> bool:
        """At the end of a stretch: renew the threshold, fall back or recover; whether to go back to a snapshot."""
        if self.guard.unknown:
            self.unknown.renew()
        if not self.guard.fall_back:
            return False
        if not self.fallen and self.health.hurts():
            self.events[FALLEN], self.events[SINCE] = 1, seen
            self.events[FALLS] += 1
            _log.warning("Adapting hurts: from image %d on the text answers alone, until it helps again.", seen)
        elif self.fallen and self.health.helps():
            self.events[FALLEN] = 0
            _log.warning("Adapting helps again: from image %d on the method answers.", seen)
        waited = self.fallen and seen - self.events[SINCE] >= PATIENCE
        if waited:
            self.events[SINCE] = seen
        return bool(waited)

    def has_to_start_over(self) -> bool:
        """Whether too much of what was learned would not be learned now."""
        limit = self.guard.start_over
        if not limit or self.admission.judge_again() <= limit:
            return False
        self.admission.forget_record()
        self.runs.start_over()
        self.events[RESTARTS] += 1
        return True

    def strange_by_now(self, seen: int) -> NDArray[np.int64]:
        """The positions of images that were learned and would not be now, as was just judged; each is told once."""
        return self.admission.newly_strange(self.verdicts, seen) if self.admission.untold else NO_IMAGES

    def contradicted(self, bank: Bank, seen: int) -> NDArray[np.bool_] | None:
        """Of a bank's items those that their neighbors contradict; at each look back a few classes are asked, in turn.

        Only classes that hold items are. Near is as near as the last images had their nearest one, in the middle.
        """
        if not self.guard.contradicted:
            return None
        gone = self.neighbors.contradicted(bank, seen // STRETCH, self._held, self.details, seen)
        if gone is not None:
            self.events[CONTRADICTED] += int(gone.sum())
        return gone

    def report(self, seen: int, banks: Iterable[Bank]) -> HealthReport:
        """What the stream has noticed of itself."""
        health, rows = self.health, self.health.known()
        held = [bank.sources for bank in banks]
        items = np.concatenate([sources[sources >= 0] for sources in held]) if held else np.zeros(0)
        covered = [float((sources >= 0).any(axis=1).mean()) for sources in held]
        known = min(int(self.admission.counts[JUDGED]), HELD)
        return HealthReport(
            seen=seen,
            images=len(rows),
            agreement=float(rows[:, AGREED].mean()) if len(rows) else 1.0,
            flips=float((rows[:, ANSWER] != rows[:, TEXT]).mean()) if len(rows) else 0.0,
            smoothness=health.smoothness(),
            support=health.support(),
            taken_back=health.taken_back(),
            runs=self.runs.share if self.guard.fall_back else 0.0,
            hurts=health.hurts(),
            collapse=health.collapse(),
            drift=health.drift(self.admission.held[:known]),
            coverage=max(covered) if covered else None,
            age=float(seen - np.median(items)) if len(items) else None,
            refused={v.name.lower(): int(self.counts[v]) for v in Verdict if v != Verdict.LEARNED},
            restarts=int(self.events[RESTARTS]),
            falls=int(self.events[FALLS]),
            fallen=self.fallen,
            returns=int(self.events[RETURNS]),
        )

    def positions_of(self, source: str) -> NDArray[np.int64]:
        """Which images of a source may be kept, as far as is known: those learned, and the last of those refused."""
        return self.sources[self.sources[:, 1] == source_number(source), 0]

    def corrected(self, position: int) -> None:
        """Somebody has corrected an image: if it was refused, know who sent it for as long as if it were learned."""
        row = self.sources[REFUSED + position % DIARY]
        if row[0] == position:
            self.sources[self.events[LOGGED] % REFUSED] = row
            self.events[LOGGED] += 1
            row[:] = NO_SOURCE

    def refused(self, position: int) -> bool:
        """Whether an image, one of the last, was not learned."""
        return bool(self.verdicts[position % DIARY] != Verdict.LEARNED)

    def why(self, position: int, seen: int) -> str:
        """Why an image was learned from or not, in a sentence."""
        if not max(0, seen - DIARY) <= position < seen:
            known = f"images {max(0, seen - DIARY)} to {seen - 1}" if seen else "no image yet"
            raise TrimtabError(f"Nothing is known of image {position}; the guard remembers {known}.")
        text = " The text's answer was given: runs of classes spoke against the method's."
        return self._verdict_on(position) + text * bool(self.taken_back[position % DIARY])

    def _verdict_on(self, position: int) -> str:
        details, guard = self.details[position % DIARY], self.guard
        verdict = Verdict(int(self.verdicts[position % DIARY]))
        if verdict == Verdict.DUPLICATE:
            return f"Not learned: a near-duplicate (cosine {details[NEAREST]:.4f}) of an image shortly before."
        if verdict == Verdict.STRANGE:
            return (
                f"Not learned: strange. It is {details[TO_TEXT]:.2f} times as near to its best text as to other images "
                f"(limit {guard.gap:g}), {details[BEYOND]:.1f} deviations nearer to texts than usual (limit "
                f"{guard.strange:g}), and {details[APART]:.1f} more than usual nearer to its own than the images next "
                f"to it (limit {CLOSER * guard.strange:g})."
            )
        if verdict == Verdict.QUOTA:
            return f"Not learned: its source has had its share of the last images already (quota {guard.quota:.0%})."
        if verdict == Verdict.UNKNOWN:
            return "Not learned: it seems to show none of the classes."
        return "Learned."


@njit(nogil=True)
def _all_name(given: int, parts: tuple[Array, ...], row: int) -> bool:
    """Whether no part (n, C) puts another class above that of an answer; one that has nothing to say yet puts none."""
    agreed = True
    for part in range(len(parts)):
        agreed = agreed and parts[part][row, given] >= highest_of(parts[part][row])
    return agreed


@njit(nogil=True)
def _hear(
    plain: Array,
    logits: Array,
    scales: Array,
    start: int,
    parts: tuple[Array, ...],
    answers: Array,
    found: NDArray[np.int64],
    book: Book,
    first_ones: Doubles,
    runs: Tables,
    fall_back: bool,
    first: int,
) -> int:
    """How many answers (n, C) to a block's images from `start` on the text gives: those that are taken back, the book
    says which; or all.

    `parts` (n, C) are of those; all else is of the whole block.
    """
    taken_back, log, events = book[0]["taken_back"], book[0]["log"], book[0]["events"]
    classes, count = answers.shape[1], 0
    room = np.empty(classes, np.float32), np.empty(classes), np.ones(classes)
    for row in range(len(answers)):
        image = start + row
        text, scale, answer, learned = logits[image], scales[image], answers[row], found[LEARNS, image]
        label, given = best_of(text), best_of(answer)
        against = fall_back and speaks_against(text, scale, answer, label, given, runs)
        if fall_back and learned:
            take_in(text, scale, answer, label, runs, room)
        taken_back[(first + image) % len(taken_back)] = against
        count += against
        place, nearest = found[PLACE, image], found[NEIGHBOR, image]
        if place >= 0:  # duplicates have none, and say nothing
            agreed = _all_name(given, parts, row)
            note(plain[image], label, given, agreed, against, place, nearest, book, first_ones)
        if found[SENDER, image] != NO_SOURCE:
            where = events[LOGGED] % REFUSED if learned else REFUSED + (first + image) % DIARY
            log[where] = first + image, found[SENDER, image]
            events[LOGGED] += learned
    return len(answers) if events[FALLEN] else count


def zero_shot(block: Block, rows: slice) -> Array:
    """(n, C): what the text says of some images of a block, as sure as the task's logit scale makes it."""
    factors = np.float32(block.task.logit_scale) / block.logit_scales[rows]
    return softmax(block.logits[rows] * factors[:, None])
