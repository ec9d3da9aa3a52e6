"""Prototypes: the mean feature of each class's items, as a unit vector and a length."""

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank


class Prototypes:
    """Follows a bank: v_c = lengths_c units_c is the plain mean of what class c holds in some slots.

    Writes only mark a class; `renew` does the work once, however many slots an image was written to.
    """

    def __init__(self, bank: Bank, slots: slice) -> None:
        arguments.instance("bank", bank, Bank, "a Bank")
        arguments.instance("slots", slots, slice, "a section of a bank, as in bank.sections['name']")
        classes, _, dim = bank.features.shape
        self.units: Array = np.zeros((classes, dim), np.float32)
        self.lengths: Array = np.zeros(classes, np.float32)  # 0: the class holds nothing
        self._bank, self._slots = bank, slots
        self._marked: set[int] = set()
        bank.follow(self)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved."""
        return {"units": self.units, "lengths": self.lengths}

    def open(self) -> None:
        """Nothing: prototypes do not depend on the images at hand."""

    make_room = compiled = open

    def replacing(self, label: int, slot: int, first_image: int) -> None:
        """Nothing: `renew` reads what the class holds by then."""

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:  # noqa: ARG002
        """Remember that a class has changed."""
        if self._slots.start <= slot < self._slots.stop:
            self._marked.add(label)

    def restored(self, label: int, slot: int, first_image: int) -> None:  # noqa: ARG002
        """Forget the mark: whoever holds the bank holds the prototypes, too."""
        if self._slots.start <= slot < self._slots.stop:
            self._marked.discard(label)

    def moved(self, label: int, slots: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Compute a class anew: its items are fewer."""
        self._renew(label)

    def renew(self) -> list[int]:
        """Recompute the prototypes of the marked classes; which ones they were."""
        labels = sorted(self._marked)
        self._marked.clear()
        for label in labels:
            self._renew(label)
        return labels

    def _renew(self, label: int) -> None:
        stored = self._bank.occupied[label, self._slots] > 0
        items = self._bank.features[label, self._slots][stored]
        mean = items.mean(axis=0) if len(items) else np.zeros_like(self.units[label])  # v_c
        length = np.sqrt(mean @ mean)
        self.lengths[label] = length
        self.units[label] = mean / length if length > 0 else 0
