"""Read-outs of a wide bank: tables of the classes that hold something, and what an empty class reads out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import lanes, wide
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Image
from trimtab.engine.readouts import AffinitySums, MeanProducts, NegativePenalties, ReadOut, RetrievalCosines
from trimtab.engine.wide import WideBank, grown


class WideReadOut(ReadOut):
    """Base: a table with a row for each class that holds something."""

    _bank: WideBank

    def at(self, image: Image) -> Array:
        """(C,): the read-out of one image, for every class."""
        bank = self._bank
        found = self._of_empty(image)
        found[bank.members[: bank.used_rows]] = self._table[: bank.used_rows, bank.row(image)]
        return found

    def of_block(self) -> Array:
        """(B, C): the read-out of each image of the open block, as the last write before or of it left it."""
        bank = self._bank
        found = self._of_empty_block()
        found[:, bank.members[: bank.used_rows]] = self._table[: bank.used_rows].T
        return found

    def open(self) -> None:
        """Compute the table of the classes that hold something."""
        rooms, _, images = self._bank.by_class.shape
        self._table = np.empty((rooms, images), np.float32)
        self._compute(0, self._bank.used_rows, 0)

    def opened(self, label: int) -> None:
        """A class got its slots: it reads out what it did without."""
        place = self._bank.place_of(label)
        self._compute(place, place + 1, 0)

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:  # noqa: ARG002
        """Compute one class again for the images that are yet to come."""
        if self._slots.start <= slot < self._slots.stop:
            place = self._bank.place_of(label)
            self._compute(place, place + 1, first_image)

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Compute one class again: a write was taken back."""
        self.written(label, slot, first_image, None)

    def _of_empty(self, image: Image) -> Array:  # noqa: ARG002
        """(C,): what every class would read out without items."""
        found: Array = np.zeros(self._bank.classes, np.float32)
        return found

    def _of_empty_block(self) -> Array:
        """(B, C): the same for a block."""
        found: Array = np.zeros((self._table.shape[1], self._bank.classes), np.float32)
        return found


class WideMeanProducts(WideReadOut, MeanProducts):
    """<f, v_c>; 0 without items. `since` (C,): the block's first image that finds an item of the class; B: none."""

    def open(self) -> None:
        """Compute the table, and which classes have items."""
        bank = self._bank
        self._held = np.zeros(len(bank.by_class), np.bool_)  # which rows hold items, as the kernel says it
        WideReadOut.open(self)
        self.present = np.zeros(bank.classes, np.bool_)
        self.present[bank.members[: bank.used_rows]] = self._held[: bank.used_rows]
        self.since = np.where(self.present, 0, bank.products.shape[1])

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:
        """Compute one class again for the images that are yet to come."""
        WideReadOut.written(self, label, slot, first_image, payload)
        if self._slots.start <= slot < self._slots.stop and not self.present[label]:
            self.present[label], self.since[label] = True, first_image

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Compute one class again: a write was taken back, perhaps that of its only item."""
        WideReadOut.written(self, label, slot, first_image, None)
        if not self._bank.occupied[label, self._slots].any():
            self.present[label], self.since[label] = False, self._table.shape[1]

    def _compute(self, first_class: int, last_class: int, first_image: int) -> None:
        bank, slots = self._bank, self._slots
        lanes.mean_products(
            bank.products,
            bank.at,
            bank.used,
            slots.start,
            slots.stop,
            first_class,
            last_class,
            first_image,
            self._table.shape[1],
            self._table,
            self._held,
        )


class WideAffinitySums(WideReadOut, AffinitySums):
    """sum_i alpha exp(-beta (1 - <f, x_i>)); 0 without items."""


class WideRetrievalCosines(WideReadOut, RetrievalCosines):
    """<f, r_c>; the cosine with the text where a class holds nothing else."""

    def _of_empty(self, image: Image) -> Array:
        cosines: Array = image.logits / image.logit_scale
        return cosines

    def _of_empty_block(self) -> Array:
        block = self._bank.open_block
        cosines: Array = block.logits / block.logit_scales[:, None]
        return cosines


class WideNegativePenalties(NegativePenalties):
    """What negative items say against each class; the items are few, what they speak against may be any class."""

    _bank: WideBank

    def __init__(
        self, bank: WideBank, slots: slice, alpha: float, beta: float, mask_low: float, mask_high: float
    ) -> None:
        super().__init__(bank, slots, alpha, beta, mask_low, mask_high)
        self._against: NDArray[np.int32] = np.zeros(0, np.int32)  # classes that the open block's items speak against
        self.grow(len(bank.slots))

    def grow(self, size: int) -> None:
        """The bank has room for more classes."""
        self.marked = grown(self.marked[: len(self._bank.slots)], size)
        self.counts = grown(self.counts[: len(self._bank.slots)], size)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved: the classes that each item speaks against."""
        return {"marked": self.marked[: self._bank.used_rows], "counts": self.counts[: self._bank.used_rows]}

    def opened(self, label: int) -> None:
        """A class got its slots, which say nothing yet."""

    def open(self) -> None:
        """Compute the whole table for a new block."""
        bank = self._bank
        if self._table.shape[1] == bank.products.shape[1]:
            self._table[self._against] = 0
        else:
            self._table = np.zeros((bank.classes, bank.products.shape[1]), np.float32)
        spoken = np.arange(self.marked.shape[2]) < self.counts[: bank.used_rows, :, None]
        self._against = np.unique(self.marked[: bank.used_rows][spoken])
        self._add(0, bank.used_rows, 0, self._slots.stop - self._slots.start, 0, 1)

    def replacing(self, label: int, slot: int, first_image: int) -> None:
        """Take back what the old item said."""
        super().replacing(self._bank.place_of(label), slot, first_image)

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:
        """Remember which classes the new item finds plausible, and let it speak against them."""
        place = self._bank.place_of(label)
        super().written(place, slot, first_image, payload)
        if self._slots.start <= slot < self._slots.stop:
            item = slot - self._slots.start
            self._against = np.union1d(self._against, self.marked[place, item, : self.counts[place, item]])

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Let the item before the last write speak again; the classes that it speaks against are among those known."""
        super().restored(self._bank.place_of(label), slot, first_image)

    def moved(self, label: int, slots: NDArray[np.int64]) -> None:
        """What each item speaks against goes where the item goes."""
        super().moved(self._bank.place_of(label), slots)

    def at(self, image: Image) -> Array:
        """(C,): the summed strength of the items that speak against each class; few classes are spoken against."""
        found: Array = np.zeros(self._bank.classes, np.float32)
        found[self._against] = self._table[self._against, self._bank.row(image)]
        return found

    def take_off(self, support: Array) -> None:
        """Take what speaks against the classes off what speaks for them, (B, C) of the open block."""
        support[:, self._against] -= self._table[self._against].T

    def of(self, features: Array) -> Array:
        """(V, C): the same for features (V, d) that stand for no image of the block."""
        bank, slots = self._bank, self._slots
        count = slots.stop - slots.start
        items = bank.slots[: bank.used_rows, slots]
        table = np.zeros((bank.classes, len(features)), np.float32)
        lanes.add_penalties(
            items.reshape(-1, items.shape[2]) @ features.T,
            np.arange(bank.used_rows * count, dtype=np.int32).reshape(bank.used_rows, count),
            np.ascontiguousarray(bank.occupied[bank.members[: bank.used_rows], slots]),
            0,
            self._alpha,
            self._beta,
            self.marked,
            self.counts,
            0,
            bank.used_rows,
            0,
            count,
            0,
            len(features),
            table,
        )
        return table.T


class BankKind(NamedTuple):
    """A bank and the read-outs that follow it."""

    bank: type[Bank]
    mean_products: type[MeanProducts]
    affinity_sums: type[AffinitySums]
    retrieval_cosines: type[RetrievalCosines]
    negative_penalties: type[NegativePenalties]


DENSE = BankKind(Bank, MeanProducts, AffinitySums, RetrievalCosines, NegativePenalties)
SPARSE = BankKind(WideBank, WideMeanProducts, WideAffinitySums, WideRetrievalCosines, WideNegativePenalties)


def kind_for(classes: int) -> BankKind:
    """Dense for usual label sets; where most classes never hold anything, slots are made when they are written."""
    return SPARSE if classes > wide.WIDE else DENSE
