"""Sections: the slots of a bank by class and cache, and what is noted of each item: score, image, birth."""

from collections.abc import Mapping

import numpy as np

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.engine.followers import Facts
from trimtab.errors import TrimtabError


class Sections:
    """C x K slots, divided into named sections (one per cache), each filled from its first slot on.

    With `anchors`, slot 0 of each class is before all sections, and never empty.
    """

    def __init__(
        self, classes: int, dim: int, sections: Mapping[str, int], anchors: Array | None, lifetime: int
    ) -> None:
        arguments.whole("classes", classes, least=1)
        arguments.whole("dim", dim, least=1)
        if anchors is not None and np.shape(arguments.numbers("anchors", anchors)) != (classes, dim):
            raise TrimtabError(f"anchors must have the shape (classes, dim) = ({classes}, {dim}).")
        arguments.instance("sections", sections, Mapping, "a dictionary of slots by the section's name")
        self.sections: dict[str, slice] = {}
        slots = self.first_slot = 0 if anchors is None else 1
        for name, size in sections.items():
            arguments.whole(f"sections[{name!r}]", size, least=0)
            self.sections[name] = slice(slots, slots + size)
            slots += size
        self.scores: Array = np.zeros((classes, slots), np.float32)  # what admission compares; lower is better
        self.sources = np.full((classes, slots), -1, np.int64)  # position in the stream of the image in the slot
        self.occupied: Array = np.zeros((classes, slots), np.float32)  # 1 where a slot holds something: a ready factor
        self.occupied[:, : self.first_slot] = 1
        # An item's age is counted in images of its class, so that a class which is away for long loses nothing.
        self.births = np.zeros((classes, slots), np.int64)
        self.arrivals = np.zeros(classes, np.int64)
        self._lifetime = arguments.whole("lifetime", lifetime, least=0)
        self._closed = np.zeros(1, np.bool_)

    def positions(self) -> set[int]:
        """Positions in the stream of the images that have items here."""
        return set(self.sources[self.sources >= 0].tolist())

    def grow_older(self, label: int, clear: bool) -> None:
        """An image of a class comes: its items age if the text is clear; else a bank whose items age is closed."""
        self.arrivals[label] += clear
        self._closed[0] = self._lifetime > 0 and not clear

    def count(self, section: str, label: int) -> int:
        """How many items a class holds in a section."""
        return int(self.occupied[label, self.sections[section]].sum())

    def free_slot(self, section: str, label: int) -> int | None:
        """The next free slot of a class, or None when its section is full (or has no slots)."""
        span = self.sections[section]
        slot = span.start + self.count(section, label)
        return slot if slot < span.stop else None

    def worst_slot(self, section: str, label: int) -> int:
        """The slot of highest score in a full section; of equals, that of the oldest item."""
        span = self.sections[section]
        return int(span.start + np.lexsort((self.births[label, span], -self.scores[label, span]))[0])

    def oldest_slot(self, section: str, label: int) -> int:
        """The slot of a full section that was written longest ago."""
        span = self.sections[section]
        return int(span.start + self.sources[label, span].argmin())

    def _facts_of(self, label: int, slot: int) -> Facts:
        where = label, slot
        return self.scores[where], self.sources[where], self.occupied[where], self.births[where]

    def _put_back_facts(self, label: int, slot: int, facts: Facts) -> None:
        where = label, slot
        self.scores[where], self.sources[where], self.occupied[where], self.births[where] = facts
