"""Prototypes: the mean feature of each class's items, as a unit vector and a length."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.compiled import njit
from trimtab.engine.pool import NOWHERE
from trimtab.engine.products import dot


class Prototypes:
    """Follows a bank: v_c = lengths_c units_c is the plain mean of what class c holds in some slots.

    Writes only mark a class; `renew` does the work once, however many slots an image was written to.
    """

    def __init__(self, bank: Bank, slots: slice) -> None:
        arguments.instance("bank", bank, Bank, "a Bank")
        arguments.instance("slots", slots, slice, "a section of a bank, as in bank.sections['name']")
        classes, dim = len(bank.occupied), bank.all_rows.shape[1]
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
        places = self._bank.row_numbers([label])[0, self._slots]
        self.lengths[label] = renew_one(self._bank.all_rows, places, self.units[label])


@njit(nogil=True, error_model="numpy")
def renew_one(rows: Array, places: NDArray[np.integer[Any]], unit: Array) -> np.float32:
    """The mean of a class's items, which lie at `places` (K,) of the rows (n, d), made unit in place; its length."""
    for k in range(len(unit)):
        unit[k] = 0
    count = np.float32(0)
    for slot in range(len(places)):
        if places[slot] != NOWHERE:
            count += np.float32(1)
            _add(rows[places[slot]], unit)
    if count == 0:
        return np.float32(0)
    _divide(unit, count)  # v_c
    length = np.sqrt(dot(unit, unit))
    if length > 0:
        _divide(unit, length)
    return length


@njit(nogil=True)
def _add(item: Array, total: Array) -> None:
    for k in range(len(total)):
        total[k] += item[k]


@njit(nogil=True, error_model="numpy")
def _divide(row: Array, divisor: np.float32) -> None:
    for k in range(len(row)):
        row[k] /= divisor
