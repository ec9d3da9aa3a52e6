"""Bank: the one storage behind every cache, and the one source of similarities.

A bank holds K slots for each of C classes. Every cache-based method needs nothing of them but inner products: with the
image at hand and among the items of one class. Both are kept exact here at little cost:

* an item lies in one row, however many slots hold it (pool.py);
* `open` computes the products of a whole block of images with all items in one matrix product;
* when image j is written into a slot, the products of the images after j with that slot are their products with j,
  which the block's own product already holds. So walking a block gives the same numbers as one image at a time;
* the Gram matrix of a class gains a row that is already known: the image's own products with that class's slots.

What a method makes of the products of one class is a read-out (readouts.py). Read-outs are computed for the whole block
when it opens; a write recomputes those of the written class for the images that follow, and only those.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import door, pool, tables
from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.compiled import code_for
from trimtab.engine.followers import Follower, Overwritten
from trimtab.engine.pool import NOWHERE, USED
from trimtab.engine.products import shared_pair_products, worth_sharing
from trimtab.engine.sections import Sections
from trimtab.errors import TrimtabError

ALL = slice(None)
KNOWN = -1.0  # the score of an item whose class somebody knows: below every entropy


class Bank(Sections):
    """C x K slots, what they hold, and its products with the open block's images.

    With `anchors`, slot 0 of each class always holds that class's text prototype, so that it takes part in products
    and Gram matrices like any stored item.
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        sections: Mapping[str, int],
        anchors: Array | None = None,
        lifetime: int = 0,
    ) -> None:
        super().__init__(classes, dim, sections, anchors, lifetime)
        slots = self.occupied.shape[1]
        self.rows = pool.new_rows(classes, slots, dim, anchors)  # the items, and which slots hold them
        self._labels = np.arange(classes)
        self.gram: Array = np.zeros((classes, slots, slots), np.float32)
        if anchors is not None:
            self.gram[:, 0, 0] = np.einsum("cd,cd->c", anchors, anchors)
        # The same for followers: a class has its place here, and in a wide bank once it is written.
        self.grams, self.used = self.gram, self.occupied
        # Of the open block: (N + SPARE, B), by row; slot by slot where the block is a single image. `at` says where.
        self.products: Array = np.zeros((len(self.rows.features), 0), np.float32)
        self.at = self.rows.places
        self._by_slot = np.arange(classes * slots, dtype=np.int32).reshape(classes, slots)
        self._block: Block | None = None  # the open one
        self._readouts: list[tables.ReadOuts] = []  # the followers that have a table, for blocks of the last one's size
        self._others: list[Follower] = []  # those that have none
        self._followers: list[Follower] = []
        self._overwritten: list[tuple[Any, ...]] | None = None  # while the bank is held
        self._arrived = self.arrivals  # then, what they were before

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved."""
        return {
            "features": self.rows.features[: self.rows.places.size],
            "places": self.rows.places,
            "holders": self.rows.holders,
            "row_figures": self.rows.figures,
            "scores": self.scores,
            "sources": self.sources,
            "occupied": self.occupied,
            "gram": self.gram,
            "births": self.births,
            "arrivals": self.arrivals,
        }

    def follow(self, follower: Follower) -> None:
        """Tell a read-out about every block and every write from now on."""
        self._followers.append(follower)
        self._readouts = []

    def open(self, block: Block) -> None:
        """Compute the products of a block's images with every slot and with each other."""
        self._block = block
        if self.products.shape[1] != len(block) or not self._readouts:
            self._make_room(len(block))
        self.rows.newest[:] = NOWHERE
        self._compiled = slots = self._slots_of(block)
        used = self.rows.features[: self.rows.figures[USED]]
        if len(block) > 1:
            np.matmul(used, block.queries.T, out=self.products[: len(used)])
            for readouts in self._readouts:
                door.open_tables(slots, readouts)
        else:
            multiply = door.open_one
            if worth_sharing(used):
                shared_pair_products(used, block.queries[0], self._by_row)
                multiply = door.open_one_multiplied
            for readouts in self._readouts:
                self._call(multiply, slots, readouts, self._by_row)
        for other in self._others:
            other.open()

    def _make_room(self, images: int) -> None:
        """For blocks of a size; kept from one to the next, because fresh memory costs as much as the sums."""
        self.products = np.empty((len(self.rows.features), images), np.float32)
        self.at = self.rows.places if images > 1 else self._by_slot
        self._by_row: Array = np.empty(len(self.products), np.float32)  # products of a single image
        for follower in self._followers:
            follower.make_room()
        found = [(follower, follower.compiled()) for follower in self._followers]
        self._readouts = tables.joined([table for _, table in found if table is not None])
        self._others = [follower for follower, table in found if table is None]
        self._codes: dict[Callable[..., Any], Callable[..., Any]] = {}  # compiled loops, for blocks of this size
        if len(self._readouts) == 1:
            self._visit = tables.room_for_a_visit(self.occupied.shape[1], self._readouts[0])

    @property
    def readouts(self) -> tables.ReadOuts:
        """Everything that follows the bank, as compiled loops take it, for the open block."""
        if len(self._readouts) != 1:
            raise TrimtabError("A bank that is walked in compiled loops has one read-out of each kind at most.")
        return self._readouts[0]

    def walk(self, loop: Callable[..., Any], learned: NDArray[np.bool_], *arguments: Any) -> Any:
        """Let a compiled loop walk the open block: it takes slots, read-outs, a visit, and what else is given here.

        What is given has the same types for every block of the same size, and its arrays are in C order.
        """
        visit = tables.Visit(learned, *self._visit)
        return self._call(loop, self.compiled(), self.readouts, visit, *arguments)

    def _call(self, loop: Callable[..., Any], *arguments: Any) -> Any:
        code = self._codes.get(loop)
        if code is None:
            code = self._codes[loop] = code_for(loop, *arguments)
        return code(*arguments)

    @property
    def held(self) -> bool:
        """Whether writes are being remembered, to be taken back."""
        return self._overwritten is not None

    def hold(self) -> Callable[[], None]:
        """Remember every write from now on; what is returned takes them back, and the bank is bit for bit as before.

        The open block stays open: the tables of its images follow.
        """
        self._overwritten, self._arrived = [], self.arrivals.copy()
        return self._put_back

    def _put_back(self) -> None:
        overwritten, self._overwritten = self._overwritten or [], None
        self.arrivals[:] = self._arrived
        for label, slot, row, lay, products, gram, facts in reversed(overwritten):
            for follower in self._followers:
                follower.replacing(label, slot, row)
            pool.put_back(self.rows, label, slot, lay)
            if self.at[label, slot] != NOWHERE:
                self.products[self.at[label, slot], row:] = products
            self.gram[label, slot] = gram
            self.gram[label, :, slot] = gram
            self._put_back_facts(label, slot, facts)
            for follower in self._followers:
                follower.restored(label, slot, row)

    def drop(self, gone: NDArray[np.bool_]) -> None:
        """Take items out, (C, K); those behind them in their section move up. Open a block before going on."""
        self._block = None
        for label in np.flatnonzero(gone.any(axis=1)).tolist():
            slots = np.full(gone.shape[1], -1, np.int64)
            slots[: self.first_slot] = np.arange(self.first_slot)
            for span in self.sections.values():
                stay = np.flatnonzero((self.occupied[label, span] > 0) & ~gone[label, span]) + span.start
                slots[span.start : span.start + len(stay)] = stay
            empty = slots < 0
            self._move_items(label, slots)
            for array, nothing in ((self.scores, 0), (self.sources, -1), (self.occupied, 0), (self.births, 0)):
                array[label] = array[label][slots]
                array[label][empty] = nothing
            self.gram[label] = self.gram[label][slots][:, slots]
            self.gram[label][empty] = 0
            self.gram[label][:, empty] = 0
            for follower in self._followers:
                follower.moved(label, slots)

    def _move_items(self, label: int, slots: NDArray[np.int64]) -> None:
        """Let each slot of a class hold what `slots` held; -1: nothing. What none holds any longer goes."""
        pool.move(self.rows, label, slots)

    def place(self, label: int, feature: Array, position: int) -> None:
        """Give a class an item that is known to be of it, between two blocks, in the first section that has slots.

        Its score is the best there is, so it stays; in a full section the worst item gives way, of equals the oldest.
        Negative items are uncertain by right, so nothing that is known goes there.
        """
        self._block = None
        sections = [name for name, span in self.sections.items() if name != "negative" and span.start < span.stop]
        if not sections:
            return
        free = self.free_slot(sections[0], label)
        slot = self.worst_slot(sections[0], label) if free is None else free
        self._lay_down(label, slot, np.ascontiguousarray(feature, np.float32))
        self.scores[label, slot], self.sources[label, slot], self.occupied[label, slot] = KNOWN, position, 1
        self.arrivals[label] += 1
        self.births[label, slot] = self.arrivals[label]
        products = self.items(label) @ feature
        self.gram[label, slot] = products
        self.gram[label, :, slot] = products
        for follower in self._followers:
            follower.moved(label, np.arange(self.occupied.shape[1]))

    def _lay_down(self, label: int, slot: int, feature: Array) -> None:
        pool.lay_down(self.rows, label, slot, feature, NOWHERE)

    @property
    def features(self) -> Array:
        """(C, K, d): copies of what all slots hold; zeros for an empty one."""
        return self.items_of(range(len(self.occupied)))

    def item(self, label: int, slot: int) -> Array:
        """(d,): a copy of what a slot holds; zeros if it is empty."""
        return self.items(label, slice(slot, slot + 1))[0]

    def items(self, label: int, slots: slice = ALL) -> Array:
        """(k, d): copies of what some slots of a class hold; zeros for an empty one."""
        return self.items_of([label], slots)[0]

    def items_of(self, labels: Sequence[int], slots: slice = ALL) -> Array:
        """(n, k, d): the same for several classes."""
        numbers = self.row_numbers(labels)[:, slots]
        return np.where(numbers[:, :, None] == NOWHERE, np.float32(0), self.all_rows[numbers])

    def items_in_turn(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # noqa: ARG002
        """Classes (n,), and where in `all_rows` their slots' items (n, K) lie; -1 for an empty slot.

        Among them are `count` classes, or all there are, of those that hold items, from the `first` of these on,
        around. Here all classes are: whoever asks a few has them at hand.
        """
        return self._labels, self.rows.places

    def row_numbers(self, labels: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, K): where in `all_rows` the items of some classes lie; -1 for an empty slot."""
        return self.rows.places[np.asarray(labels, np.int64)].astype(np.int64)

    @property
    def all_rows(self) -> Array:
        """(rows, d): the items as they lie."""
        return self.rows.features

    def is_sound(self) -> bool:
        """Whether slots and rows fit together; those of a file that somebody has made need not."""
        return pool.are_sound(self.rows, self.occupied)

    def forget(self, positions: NDArray[np.int64]) -> int:
        """Take out the items that came from these images of the stream; how many there were."""
        gone = np.isin(self.sources, positions) & (self.sources >= 0)
        self.drop(gone)
        return int(gone.sum())

    def row(self, image: Image) -> int:
        """The image's place in the open block; an image of another block is refused, whose products are not here."""
        if image.block is not self._block:
            raise TrimtabError(
                f"Image {image.position} is not of the block that the bank was opened for, so its similarities are not "
                "known; call state.open(image.block) first, or let a Stream do it."
            )
        return image.row

    def compiled(self) -> tables.Slots:
        """The bank and the open block as compiled loops take them."""
        if self._block is None:
            raise TrimtabError("No block is open, so there is nothing to walk; call state.open(block) first.")
        return self._compiled

    def _slots_of(self, block: Block) -> tables.Slots:
        return tables.Slots(
            self.rows,
            self.scores,
            self.sources,
            self.occupied,
            self.gram,
            self.products,
            self.at,
            block.queries,
            block.among,
            block.first,
            self.births,
            self.arrivals,
            self._lifetime,
            self._closed,
        )

    @property
    def products_with_anchors(self) -> Array:
        """(C,): a single image's products with slot 0 of each class; of a larger block, nothing of use."""
        return self.products[: self.occupied.size : self.occupied.shape[1], 0]

    def similarities(self, image: Image) -> Array:
        """(C, K): the image's inner products with every slot as it is now; 0 for empty slots."""
        found = self.products[self.at, self.row(image)]
        return np.where(self.rows.places == NOWHERE, np.float32(0), found)

    def write(
        self,
        label: int,
        slot: int,
        image: Image,
        score: float,
        *,
        feature: Array | None = None,
        payload: Array | None = None,
    ) -> None:
        """Put the image into a slot, over whatever it held: what stands for it, or another `feature` of it.

        `payload` goes to the followers, for the one that keeps more of an item than its feature.
        """
        row = self.row(image)
        if self._overwritten is not None:
            self._overwritten.append(self._held_by(label, slot, row))
        for follower in self._followers:
            follower.replacing(label, slot, row)
        item = image.feature if feature is None else np.ascontiguousarray(feature, np.float32)
        facts = np.float32(score), item, feature is None, NOWHERE
        door.put_item(self.compiled(), label, slot, row, len(image.block), *facts)
        for follower in self._followers:
            follower.written(label, slot, row, payload)

    def _held_by(self, label: int, slot: int, row: int) -> tuple[Any, ...]:
        return Overwritten(
            label,
            slot,
            row,
            pool.lay_of(self.rows, label, slot),
            self.products[self.at[label, slot], row:].copy(),
            self.gram[label, slot].copy(),
            self._facts_of(label, slot),
        )

    def slot_for_lower(self, section: str, label: int, score: float) -> int | None:
        """Where an item of this score may go: a free slot, one of an item past its time, else a strictly worse one."""
        span = self.sections[section]
        slot = door.slot_for_lower(self.compiled(), label, span.start, span.stop, np.float32(score))
        return None if slot == NOWHERE else slot

    def offer(
        self, section: str, label: int, image: Image, score: float, *, payload: Array | None = None
    ) -> int | None:
        """Store the image if there is room or its score is strictly lower than the worst one; the slot, or None."""
        slot = self.slot_for_lower(section, label, score)
        if slot is not None:
            self.write(label, slot, image, score, payload=payload)
        return slot
