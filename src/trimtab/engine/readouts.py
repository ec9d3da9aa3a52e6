"""Read-outs: what an image and a class's stored items make together, one number per class.

Each follows a bank. When a block opens, the bank computes the (C, B) tables for all its images in one compiled call;
each `Bank.write` pushes through `written`, which recomputes the written class's row for the images that follow. So
`at(image)` computes nothing: it looks up a column that the last write left true.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine import lanes, tables
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Image
from trimtab.errors import TrimtabError


class ReadOut:
    """Base: a (C, B) table that is kept true. Subclasses say how a class's row is computed."""

    def __init__(self, bank: Bank, slots: slice) -> None:
        self._bank = arguments.instance("bank", bank, Bank, "a Bank")
        self._slots = arguments.instance("slots", slots, slice, "a section of a bank, as in bank.sections['name']")
        self._table: Array = np.zeros((0, 0), np.float32)
        bank.follow(self)

    def at(self, image: Image) -> Array:
        """(C,): the read-out of one image, for every class."""
        return self._table[:, self._bank.row(image)].copy()

    def of_block(self) -> Array:
        """(B, C): the read-out of each image of the open block, as the last write before or of it left it."""
        return np.ascontiguousarray(self._table.T)

    def make_room(self) -> None:
        """Room for the images of a new block."""
        self._table = np.empty((len(self._bank.occupied), self._bank.products.shape[1]), np.float32)

    def compiled(self) -> tables.ReadOut | None:
        """As compiled loops take it, which compute the whole table when a block opens."""
        return None

    def open(self) -> None:
        """Compute the whole table for a new block, where no compiled loop does."""
        self._compute(0, len(self._table), 0)

    def replacing(self, label: int, slot: int, first_image: int) -> None:
        """Nothing: `written` recomputes the class."""

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:  # noqa: ARG002
        """Compute one class again for the images that are yet to come."""
        if self._slots.start <= slot < self._slots.stop:
            self._compute(label, label + 1, first_image)

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Compute one class again: a write was taken back."""
        if self._slots.start <= slot < self._slots.stop:
            self._compute(label, label + 1, first_image)

    def moved(self, label: int, slots: NDArray[np.int64]) -> None:
        """Nothing: the next block computes everything."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Nothing is saved: a read-out follows from the bank."""
        return {}

    def _compute(self, first_class: int, last_class: int, first_image: int) -> None:
        raise NotImplementedError


class MeanProducts(ReadOut):
    """<f, v_c>, v_c the plain mean of a class's items: a dot with a mean is a mean of dots. 0 without items.

    The visual prototypes v_c themselves are never needed here; `Prototypes` has them for the methods that move them.
    """

    def __init__(self, bank: Bank, slots: slice) -> None:
        super().__init__(bank, slots)
        self.present = np.zeros(len(bank.occupied), np.bool_)  # the classes that have items, since the block opened

    def compiled(self) -> tables.Means:
        """As compiled loops take it."""
        return tables.Means(self._slots.start, self._slots.stop, self._table, self.present)

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Compute one class again: a write was taken back, perhaps that of its only item."""
        super().restored(label, slot, first_image)
        self.present[label] = bool(self._bank.occupied[label, self._slots].any())

    def _compute(self, first_class: int, last_class: int, first_image: int) -> None:
        bank, slots = self._bank, self._slots
        lanes.mean_products(
            bank.products,
            bank.at,
            bank.occupied,
            slots.start,
            slots.stop,
            first_class,
            last_class,
            first_image,
            self._table.shape[1],
            self._table,
            self.present,
        )


class AffinitySums(ReadOut):
    """sum_i alpha exp(-beta (1 - <f, x_i>)) over a class's items: the read-out of Tip-Adapter and TDA."""

    def __init__(self, bank: Bank, slots: slice, alpha: float, beta: float) -> None:
        super().__init__(bank, slots)
        self._alpha = np.float32(arguments.number("alpha", alpha))
        self._beta = np.float32(arguments.number("beta", beta))

    def compiled(self) -> tables.Affinities:
        """As compiled loops take it."""
        return tables.Affinities(self._slots.start, self._slots.stop, self._alpha, self._beta, self._table)

    def _compute(self, first_class: int, last_class: int, first_image: int) -> None:
        bank, slots = self._bank, self._slots
        lanes.affinity_sums(
            bank.products,
            bank.at,
            bank.used,
            slots.start,
            slots.stop,
            self._alpha,
            self._beta,
            first_class,
            last_class,
            first_image,
            self._table.shape[1],
            self._table,
        )


class RetrievalCosines(ReadOut):
    """<f, r_c>: the cosine with a class's items, weighted by their likeness to the image and added up.

    The slots must begin with slot 0, where the text prototype stands: a class without items reads out its text.
    """

    def __init__(self, bank: Bank, slots: slice, beta: float) -> None:
        super().__init__(bank, slots)
        self._beta = np.float32(arguments.number("beta", beta))

    def compiled(self) -> tables.Retrieved:
        """As compiled loops take it."""
        return tables.Retrieved(self._slots.stop, self._beta, self._table)

    def _compute(self, first_class: int, last_class: int, first_image: int) -> None:
        bank = self._bank
        lanes.retrieval_cosines(
            bank.products,
            bank.at,
            bank.used,
            bank.grams,
            self._slots.stop,
            self._beta,
            first_class,
            last_class,
            first_image,
            self._table.shape[1],
            self._table,
        )


class NegativePenalties:
    """What the items of a negative cache say against each class: A(f Q_n') L_n in the papers' formulas.

    An uncertain image is evidence against the classes it might have been mistaken for: those to which its prediction
    gave more than `mask_low` and less than `mask_high`. At most 1 / mask_low classes can have that much, so a short
    list per item (`marked`, `counts`) replaces its row of L_n: at 1,000 classes that is thirty times less to keep and
    to read. An item is written with its probabilities as the payload of `Bank.write`.
    """

    def __init__(self, bank: Bank, slots: slice, alpha: float, beta: float, mask_low: float, mask_high: float) -> None:
        classes, count = len(bank.occupied), slots.stop - slots.start
        most = classes if mask_low <= 0 else min(classes, int(1 / mask_low) + 1)
        self.marked = np.zeros((classes, count, most), np.int32)
        self.counts = np.zeros((classes, count), np.int32)
        self._bank, self._slots = bank, slots
        self._alpha, self._beta = np.float32(alpha), np.float32(beta)
        self._bounds = (mask_low, mask_high)
        self._overwritten: list[tuple[np.int32, NDArray[np.int32]]] = []  # while the bank is held
        self._table: Array = np.zeros((0, 0), np.float32)
        bank.follow(self)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved: the classes that each item speaks against."""
        return {"marked": self.marked, "counts": self.counts}

    def at(self, image: Image) -> Array:
        """(C,): the summed strength of the items that speak against each class."""
        return self._table[:, self._bank.row(image)].copy()

    def of_block(self) -> Array:
        """(B, C): the same of each image of the open block, as the last write before or of it left it."""
        return np.ascontiguousarray(self._table.T)

    def compiled(self) -> tables.Penalties:
        """As compiled loops take it."""
        return tables.Penalties(
            self._slots.start,
            self._slots.stop,
            self._alpha,
            self._beta,
            np.float32(self._bounds[0]),
            np.float32(self._bounds[1]),
            self.marked,
            self.counts,
            self._table,
        )

    def of(self, features: Array) -> Array:
        """(V, C): the same for features (V, d) that stand for no image of the block: an image's other views."""
        bank, slots = self._bank, self._slots
        classes, count = len(bank.occupied), slots.stop - slots.start
        items = bank.items_of(range(classes), slots)
        table = np.zeros((classes, len(features)), np.float32)
        lanes.add_penalties(
            items.reshape(classes * count, features.shape[1]) @ features.T,
            np.arange(classes * count, dtype=np.int32).reshape(classes, count),
            np.ascontiguousarray(bank.occupied[:, slots]),
            0,
            self._alpha,
            self._beta,
            self.marked,
            self.counts,
            0,
            classes,
            0,
            count,
            0,
            len(features),
            table,
        )
        return table.T

    def make_room(self) -> None:
        """Room for the images of a new block."""
        self._table = np.empty((len(self._bank.occupied), self._bank.products.shape[1]), np.float32)

    def open(self) -> None:
        """Nothing: the bank has computed the table."""

    def replacing(self, label: int, slot: int, first_image: int) -> None:
        """Take back what the old item said."""
        if self._slots.start <= slot < self._slots.stop:
            item = slot - self._slots.start
            self._add(label, label + 1, item, item + 1, first_image, -1)

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:
        """Remember which classes the new item finds plausible, and let it speak against them."""
        if not self._slots.start <= slot < self._slots.stop:
            return
        if payload is None:
            raise TrimtabError("An item of a negative cache is written with its probabilities as the payload.")
        item = slot - self._slots.start
        if self._bank.held:
            self._overwritten.append((self.counts[label, item], self.marked[label, item].copy()))
        low, high = self._bounds
        plausible = np.flatnonzero((payload > low) & (payload < high))  # the item's row of L_n
        self.counts[label, item] = len(plausible)
        self.marked[label, item, : len(plausible)] = plausible
        self._add(label, label + 1, item, item + 1, first_image, 1)

    def hold(self) -> Callable[[], None]:
        """Nothing to do: the bank tells when a write is taken back."""
        return self._overwritten.clear

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """Let the item before the last write speak again."""
        if self._slots.start <= slot < self._slots.stop:
            item = slot - self._slots.start
            self.counts[label, item], self.marked[label, item] = self._overwritten.pop()
            self._add(label, label + 1, item, item + 1, first_image, 1)

    def moved(self, label: int, slots: NDArray[np.int64]) -> None:
        """What each item speaks against goes where the item goes."""
        own = np.maximum(slots[self._slots] - self._slots.start, -1)
        self.counts[label], self.marked[label] = self.counts[label][own], self.marked[label][own]
        self.counts[label][own < 0] = 0
        self.marked[label][own < 0] = 0

    def _add(self, first: int, last: int, first_item: int, last_item: int, first_image: int, sign: int) -> None:
        lanes.add_penalties(
            self._bank.products,
            self._bank.at,
            self._bank.used,
            self._slots.start,
            np.float32(sign) * self._alpha,
            self._beta,
            self.marked,
            self.counts,
            first,
            last,
            first_item,
            last_item,
            first_image,
            self._table.shape[1],
            self._table,
        )
