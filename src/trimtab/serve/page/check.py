"""Check fifty: a person labels a random sample, and the accuracy is known with an interval.

The frame is every image whose picture is kept when the check starts. Half of the sample are flips, where alone adapted
and zero-shot answers differ; the rest are other images; where one kind runs out the other fills in. Images come in
random order without the stream's answers. The sample's pictures and answers are copied when it is drawn, so the stream
may learn on meanwhile, and every label is on the disk when the next image is shown.
"""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.serve.page.intervals import Interval, Stratum, difference_of, share_of

SIZE = 50
KEPT = 20  # results of earlier checks


@dataclass(frozen=True)
class Candidate:
    """An image that may be drawn: its id and position, and what was answered when it came."""

    id: str
    position: int
    answer: str
    zero_shot: str

    @property
    def flip(self) -> bool:
        """Whether adapting changed the answer."""
        return self.answer != self.zero_shot


@dataclass
class Asked:
    """An image of the sample, and what the person said: None not yet, "" for none of the classes."""

    candidate: Candidate
    truth: str | None = None
    unclear: bool = False

    @property
    def done(self) -> bool:
        """Whether the person has answered."""
        return self.unclear or self.truth is not None


@dataclass(frozen=True)
class Result:
    """What a check found."""

    when: float
    first: int  # positions of the frame's images
    last: int
    frame: int
    flips: int  # in the frame
    labeled: int
    unclear: int
    zero_shot: Interval
    adapted: Interval
    gain: Interval


@dataclass
class Check:
    """A check under way."""

    when: float
    frame: int
    flips: int
    first: int
    last: int
    asked: list[Asked] = field(default_factory=list)
    taught: bool = False

    @property
    def next(self) -> int | None:
        """Which image is to be labeled next; None when all are."""
        return next((index for index, asked in enumerate(self.asked) if not asked.done), None)

    def say(self, index: int, truth: str, *, unclear: bool = False) -> None:
        """Note what an image shows."""
        if not 0 <= index < len(self.asked):
            raise TrimtabError(f"The check has {len(self.asked)} images; there is no image {index}.")
        self.asked[index].truth, self.asked[index].unclear = (None, True) if unclear else (truth, False)

    def step_back(self) -> None:
        """Ask about the last labeled image again."""
        here = self.next if self.next is not None else len(self.asked)
        if here:
            self.asked[here - 1].truth, self.asked[here - 1].unclear = None, False

    def labels(self) -> list[tuple[str, str]]:
        """Ids and classes of the images that were named."""
        return [(asked.candidate.id, asked.truth) for asked in self.asked if asked.truth]

    def result(self) -> Result | None:
        """The intervals; None while they cannot be given."""
        named = [asked for asked in self.asked if asked.truth is not None]
        flips = [asked for asked in named if asked.candidate.flip]
        others = [asked for asked in named if not asked.candidate.flip]
        unclear = [asked.candidate.flip for asked in self.asked if asked.unclear]
        adapted = sum(asked.truth == asked.candidate.answer for asked in flips)
        frozen = sum(asked.truth == asked.candidate.zero_shot for asked in flips)
        alike = sum(asked.truth == asked.candidate.answer for asked in others)
        rest = Stratum(self.frame - self.flips, alike, len(others) - alike, unclear.count(False))

        def accuracy(right: int) -> Interval | None:
            return share_of([rest, Stratum(self.flips, right, len(flips) - right, unclear.count(True))])

        found = accuracy(frozen), accuracy(adapted)
        neither = len(flips) - adapted - frozen
        gain = difference_of(self.flips, self.frame, adapted, frozen, neither, unclear.count(True))
        if found[0] is None or found[1] is None or gain is None:
            return None
        return Result(
            self.when, self.first, self.last, self.frame, self.flips, len(named), len(unclear), found[0], found[1], gain
        )


def draw(candidates: Sequence[Candidate], when: float, seed: int, size: int = SIZE) -> Check:
    """Draw the images of a check at random."""
    chance = random.Random(seed)
    flips = [candidate for candidate in candidates if candidate.flip]
    others = [candidate for candidate in candidates if not candidate.flip]
    if not candidates:
        raise TrimtabError("No picture is kept yet, so there is nothing to look at; send some images first.")
    from_flips = min(len(flips), max(size // 2, size - len(others)))
    drawn = chance.sample(flips, from_flips) + chance.sample(others, min(len(others), size - from_flips))
    chance.shuffle(drawn)
    positions = [candidate.position for candidate in candidates]
    asked = [Asked(candidate) for candidate in drawn]
    return Check(when, len(candidates), len(flips), min(positions), max(positions), asked)


class Checks:
    """The check under way and the results of earlier ones, in a file; its pictures lie in a folder below the others."""

    def __init__(self, file: Path, thumbnails: Path) -> None:
        self._file, self._pictures = file, thumbnails / "check"
        self.current: Check | None = None
        self.past: list[Result] = []
        if file.exists():
            try:
                self._read(json.loads(file.read_bytes()))
            except (ValueError, KeyError, TypeError, OSError):
                raise TrimtabError(f"{file} is damaged; delete it to check again. Nothing learned is in it.") from None

    def start(self, check: Check, picture_of: Callable[[str], bytes | None]) -> None:
        """Begin with a check, and copy its pictures."""
        self.forget_pictures()
        self._pictures.mkdir()
        for index, asked in enumerate(check.asked):
            picture = picture_of(asked.candidate.id)
            if picture is None:  # it left between the two looks
                raise TrimtabError("Pictures left the server's store while the sample was drawn; try again.")
            (self._pictures / f"{index}.jpg").write_bytes(picture)
        self.current = check
        self.save()

    def picture(self, index: int) -> bytes | None:
        """A picture of the check under way, unless all pictures were deleted."""
        file = self._pictures / f"{index}.jpg"
        return file.read_bytes() if self.current is not None and file.exists() else None

    def save(self) -> None:
        """Write all of it, whole."""
        if self.current is not None and self.current.next is None and (result := self.current.result()) is not None:
            self.past = [result, *(old for old in self.past if old.when != result.when)][:KEPT]
        note = {
            "current": None if self.current is None else asdict(self.current),
            "past": [asdict(result) for result in self.past],
        }
        write_whole(self._file, json.dumps(note).encode())

    def forget_pictures(self) -> None:
        """Keep the results alone."""
        self.current = None
        shutil.rmtree(self._pictures, ignore_errors=True)
        self.save()

    def _read(self, note: dict[str, Any]) -> None:
        if (current := note["current"]) is not None:
            asked = [Asked(**(one | {"candidate": Candidate(**one["candidate"])})) for one in current["asked"]]
            self.current = Check(**(current | {"asked": asked}))
        self.past = [
            Result(**(one | {name: Interval(**one[name]) for name in ("zero_shot", "adapted", "gain")}))
            for one in note["past"]
        ]
