"""History: a stream's past as a page shows it, bounded however long the stream is.

Series are kept in bins of some images each. When there are too many bins, neighbors are joined, so that the whole past
stays in view and becomes coarser. The last answers and the last flips are kept one by one.
"""

from collections import deque
from typing import Any

from trimtab.serve.records import Answer

IMAGES_PER_BIN = 16  # at first
MOST_BINS = 512
WINDOW = 256  # images of which class shares are told, the first and the last
RECENT = 256  # answers kept one by one; and as many flips
EVENTS = 256

# Places in a bin. The last three are as of its last image.
IMAGES, AGREED, FLIPS, CONFIDENCE, LEARNED, SEEN, COLLAPSE, DRIFT = range(8)
SUMS = slice(IMAGES, LEARNED + 1)


class History:
    """What happened along a stream, counted in images taken in; a restore does not turn it back."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._labels = labels
        self.total = 0  # images taken in, ever
        self.corrections = 0
        self._began = 0  # at so many images the stream was new: at first, or after a reset
        self._per_bin = IMAGES_PER_BIN
        self._bins: list[list[float | None]] = []
        self._first = [0] * len(labels)
        self._last: deque[int] = deque(maxlen=WINDOW)
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._flips: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)

    def __len__(self) -> int:
        """How many answers are kept one by one."""
        return len(self._recent) + len(self._flips)

    def take_in(self, answer: Answer, facts: dict[str, Any]) -> bool:
        """An image was taken in; whether its bin is full, and is to be closed."""
        entry = {
            "id": answer.id,
            "label": answer.label,
            "score": answer.score,
            "zero_shot": {"label": answer.zero_shot.label, "score": answer.zero_shot.score},
            "parts": {name: {"label": part.label, "score": part.score} for name, part in answer.parts.items()},
            "agree": answer.agree,
            "unknown": answer.unknown,
            "learned": answer.learned,
            "why_not": answer.why_not,
            "version": answer.version,
            "corrected": None,
            **facts,
        }
        self._recent.append(entry)
        if answer.flipped:
            self._flips.append(entry)
        named = int(answer.probabilities.argmax())
        if self.total < WINDOW:
            self._first[named] += 1
        self._last.append(named)
        self.total += 1
        if not self._bins or self._bins[-1][IMAGES] == self._per_bin:
            self._bins.append([0, 0, 0, 0.0, 0, 0, 0.0, None])
        newest = self._bins[-1]
        added = (1, answer.agree, answer.flipped, answer.score, answer.learned)
        newest[SUMS] = [float(old or 0) + float(more) for old, more in zip(newest[SUMS], added, strict=True)]
        newest[SEEN] = self.total
        return newest[IMAGES] == self._per_bin

    def close_bin(self, drift: float | None) -> None:
        """A bin is full: note what is known at its end."""
        self._bins[-1][COLLAPSE], self._bins[-1][DRIFT] = self._collapse(), drift
        if len(self._bins) == MOST_BINS:
            self._join()

    def happened(self, kind: str, text: str, when: float) -> None:
        """Something to mark on the charts."""
        self._events.append({"kind": kind, "text": text, "seen": self.total, "when": when})

    def corrected(self, image: str, label: str) -> str | None:
        """A human answer to an image; what the stream had said, if it still knows."""
        self.corrections += 1
        said = None
        for entry in (*self._flips, *self._recent):
            if entry["id"] == image:
                entry["corrected"], said = label, entry["label"]
        return said

    def series(self) -> dict[str, Any]:
        """What charts show. `seen` counts images taken in, ever, at the end of each bin."""
        first, last = self._shares()
        return {
            "total": self.total,
            "images_per_bin": self._per_bin,
            "seen": [row[SEEN] for row in self._bins],
            "agreement": self._mean(AGREED),
            "flips": self._mean(FLIPS),
            "confidence": self._mean(CONFIDENCE),
            "learned": self._mean(LEARNED),
            "collapse": [row[COLLAPSE] for row in self._bins],
            "drift": [row[DRIFT] for row in self._bins],
            "balance": {"labels": list(self._labels), "first": first, "now": last},
            "corrections": self.corrections,
            "events": list(self._events),
        }

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """The last answers, the newest first."""
        return [dict(entry) for entry in list(self._recent)[::-1][:limit]]

    def flips(self, limit: int) -> list[dict[str, Any]]:
        """The last answers that differ from zero-shot, the newest first."""
        return [dict(entry) for entry in list(self._flips)[::-1][:limit]]

    def begin(self) -> None:
        """The stream is as new: what was answered before says nothing of it."""
        self._began = self.total

    def agreement(self) -> float | None:
        """Share of the last images whose parts agreed; None before the first, and before the first after a reset."""
        since = min(self.total - self._began, len(self._recent))
        known = [entry["agree"] for entry in list(self._recent)[len(self._recent) - since :]]
        return sum(known) / len(known) if known else None

    def to_note(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {
            "total": self.total,
            "corrections": self.corrections,
            "began": self._began,
            "per_bin": self._per_bin,
            "bins": self._bins,
            "first": self._first,
            "last": list(self._last),
            "recent": list(self._recent),
            "flips": list(self._flips),
            "events": list(self._events),
        }

    def recall(self, note: dict[str, Any]) -> None:
        """Know what `to_note` was made from."""
        self.total, self.corrections, self._per_bin = note["total"], note["corrections"], note["per_bin"]
        self._bins, self._first = note["bins"], note["first"]
        self._began = note.get("began", 0)  # of a stream that was written down before resets were
        for name in ("last", "recent", "flips", "events"):
            getattr(self, f"_{name}").extend(note[name])

    def _mean(self, place: int) -> list[float]:
        return [float(row[place] or 0) / float(row[IMAGES] or 1) for row in self._bins]

    def _shares(self) -> tuple[list[float], list[float]]:
        """Per class: its share of the first answers, and of the last."""
        counts = [0] * len(self._labels)
        for named in self._last:
            counts[named] += 1
        began, now = max(1, min(self.total, WINDOW)), max(1, len(self._last))
        return [count / began for count in self._first], [count / now for count in counts]

    def _collapse(self) -> float:
        """Total variation between the classes of the last answers and those of the first."""
        first, last = self._shares()
        return sum(abs(a - b) for a, b in zip(first, last, strict=True)) / 2

    def _join(self) -> None:
        """Join neighboring bins, two and two."""
        joined = []
        for left, right in zip(self._bins[::2], self._bins[1::2], strict=True):
            sums = [float(a or 0) + float(b or 0) for a, b in zip(left[SUMS], right[SUMS], strict=True)]
            joined.append([*sums, *right[SEEN:]])
        self._bins, self._per_bin = joined, 2 * self._per_bin
