"""WideBank: a bank for label sets so large that most classes never hold anything.

A dense bank of MCP takes 1 GB at 21,000 classes and 48 GB at a million, and its products are 24 times the text's. Here
a class gets its slots when something is first written into it, and products, read-outs and memory are those of the
classes that hold something. What an empty class would read out is known without slots: nothing, or its text, whose
products the block has already. So every number is the dense bank's, to rounding.

It has the interface of `Bank`: scores, sources and occupied are plain (C, K) arrays; features and gram are looked up by
class. Read-outs that follow it are in wide_readouts.py.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import pool, tables
from trimtab.engine.arrays import Array, Arrays
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image
from trimtab.engine.by_class import ByClass
from trimtab.engine.compiled import njit
from trimtab.engine.followers import Facts
from trimtab.engine.pool import NOWHERE
from trimtab.engine.sections import Sections
from trimtab.engine.state import State
from trimtab.errors import TrimtabError

WIDE = 16_384  # classes, from which on a bank is wide
FIRST_ROOM = 1 << 30  # bytes of slots before the first growth: addresses, which take memory when they are written to
WRITES_PER_IMAGE = 3  # classes that one image may open at most: its own, the vote's, and the one after reflection
BLOCKS_OF_LOGITS = 24  # (C, block) arrays of float32 that are alive at once, measured; for the estimate of memory


class WideOverwritten(NamedTuple):
    """What a slot held before a write, and what the block's images from `row` on had in common with it."""

    label: int
    slot: int
    row: int
    feature: Array
    products: Array
    gram: Array
    facts: Facts


class WideBank(Bank):
    """C x K slots of which only those of the classes that were written exist."""

    def __init__(
        self,
        classes: int,
        dim: int,
        sections: Mapping[str, int],
        anchors: Array | None = None,
        lifetime: int = 0,
    ) -> None:
        _refuse_too_large(classes, dim)
        Sections.__init__(self, classes, dim, sections, anchors, lifetime)  # not Bank's: items lie by class here
        slots = self.occupied.shape[1]
        self.rows = pool.new_rows(1, slots, dim, None)  # for compiled code, which finds slots and reads no item
        self._block, self._followers = None, []
        self._overwritten, self._arrived = None, self.arrivals
        self._opened: list[int] = []  # classes that got their row while the bank is held
        self.classes, self._anchors = classes, anchors
        self.row_of = np.full(classes, -1, np.int32)  # class -> row below
        self.used_rows = 0  # rows in use
        self.members = np.zeros(0, np.int64)  # row -> class
        self.slots: Array = np.zeros((0, slots, dim), np.float32)  # what the slots of a class hold, by row
        self.grams: Array = np.zeros((0, slots, slots), np.float32)
        self.used: Array = np.zeros((0, slots), np.float32)  # occupied, by row
        self._keys = np.zeros((0, slots), np.int64)  # of the items, by row: equal for equal ones; 0: not known
        # Products are kept in memory of the last block, whose zeros stay: fresh memory costs as much as the products.
        self._memory: Array = np.zeros((0, slots, 0), np.float32)
        self._filled = np.zeros((0, slots), np.bool_)  # by row: where that memory is not zero
        self._numbers: NDArray[np.int32] = np.zeros((0, slots), np.int32)  # of all slots
        self._open_room(0)
        self.make_room(min(classes, max(1, FIRST_ROOM // (4 * slots * dim))))

    @property
    def features(self) -> ByClass:  # type: ignore[override]
        """(C, K, d), by class."""
        return ByClass(self.row_of, self.slots, self._anchors)

    @property
    def gram(self) -> ByClass:  # type: ignore[override]
        """(C, K, K), by class."""
        return ByClass(self.row_of, self.grams)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved: of the classes that hold something, and one row per class of what is small."""
        return {
            "features": self.slots[: self.used_rows],
            "gram": self.grams[: self.used_rows],
            "classes": self.members[: self.used_rows],
            "row_of": self.row_of,
            "scores": self.scores,
            "sources": self.sources,
            "occupied": self.occupied,
            "births": self.births,
            "arrivals": self.arrivals,
        }

    def make_room(self, count: int) -> None:
        """Let so many classes have slots; it doubles, so that growing costs little in all."""
        if count <= len(self.slots):
            return
        size = min(max(count, 2 * len(self.slots)), self.classes)
        self.slots, self.grams = grown(self.slots, size), grown(self.grams, size)
        self.used, self.members = grown(self.used, size), grown(self.members, size)
        self._keys, self._filled = grown(self._keys, size), grown(self._filled, size)
        self._numbers = np.arange(self.used.size, dtype=np.int32).reshape(self.used.shape)
        for follower in self._followers:
            grow = getattr(follower, "grow", None)
            if grow is not None:
                grow(size)

    def hold_rows(self, count: int) -> None:
        """Let so many classes have slots, and what they hold be anything."""
        self.used_rows = count
        self.make_room(count)
        self._keys[:] = 0

    def open(self, block: Block) -> None:
        """Compute the products of a block's images with every slot that exists, and with each other."""
        self.used[: self.used_rows] = self.occupied[self.members[: self.used_rows]]
        room = min(self.used_rows + WRITES_PER_IMAGE * len(block), self.classes)
        self.make_room(room)
        _, slots, dim = self.slots.shape
        held = self.used[: self.used_rows] > 0
        self._take_memory(room, len(block), held)
        if self._anchors is not None:  # whose products are the text's cosines
            held[:, 0] = False
            cosines = block.logits[:, self.members[: self.used_rows]] / block.logit_scales[:, None]
            self.by_class[: self.used_rows, 0] = cosines.T
        # Most slots are empty here, and an image may stand in several: the items side by side, each once, are a far
        # smaller product than the rows as they are.
        places = np.flatnonzero(held)
        firsts, which = first_of_equals(self._known_keys(places))
        items = self.slots[: self.used_rows].reshape(self.used_rows * slots, dim)[places[firsts]]
        self.products[places] = (items @ block.queries.T)[which]
        self._filled[: self.used_rows] |= held
        self._block = block
        for follower in self._followers:
            follower.open()

    def _take_memory(self, rows: int, images: int, held: NDArray[np.bool_]) -> None:
        """Room for a block's products, 0 in every slot that holds nothing."""
        if len(self._memory) < rows or self._memory.shape[2] != images:
            self._memory = np.zeros((min(2 * rows, self.classes), self.slots.shape[1], images), np.float32)
            self._filled[:] = False
        stale = self._filled.copy()
        stale[: self.used_rows] &= ~held
        self._memory[: len(stale)][stale[: len(self._memory)]] = 0
        self._filled[stale] = False
        self._open_room(rows)

    def _open_room(self, rows: int) -> None:
        """Let so many classes have products: (rows, K, B) by class, and as followers take them."""
        self.by_class = self._memory[:rows]
        shape = rows * self._memory.shape[1], self._memory.shape[2]
        self.products, self.at = self.by_class.reshape(shape), self._numbers[:rows]

    def _known_keys(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys of items: Python's hash, which nobody can foresee, so that no two items are made to share one."""
        keys = self._keys[: self.used_rows].reshape(-1)
        rows = self.slots[: self.used_rows].reshape(len(keys), self.slots.shape[2])
        for place in places[keys[places] == 0].tolist():
            keys[place] = hash(rows[place].tobytes())
        return keys[places]

    def compiled(self) -> tables.Slots:
        """What finding a slot needs; features, products and Gram matrices are by row, not by class."""
        small = (self.scores, self.sources, self.occupied)
        return tables.Slots(
            self.rows,
            *small,
            self.grams,
            self.products,
            self.at,
            self.open_block.queries,
            self.open_block.among,
            self.open_block.first,
            self.births,
            self.arrivals,
            self._lifetime,
            self._closed,
        )

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
        """Put the image into a slot, over whatever it held; see `Bank.write`."""
        row, place = self.row(image), self._row_for(label)
        if self._overwritten is not None:
            self._overwritten.append(self._held_by(label, slot, row))
        for follower in self._followers:
            follower.replacing(label, slot, row)
        if feature is None:
            self.slots[place, slot] = image.feature
            self.by_class[place, slot, row:] = image.block.among[row, row:]
            of_class = self.by_class[place, :, row]
        else:
            self.slots[place, slot] = feature
            self.by_class[place, slot, row:] = image.block.queries[row:] @ feature
            of_class = self.slots[place] @ feature
        self.grams[place, slot] = of_class
        self.grams[place, :, slot] = of_class
        self.scores[label, slot], self.sources[label, slot] = score, image.position
        self.births[label, slot] = self.arrivals[label]
        self.occupied[label, slot] = self.used[place, slot] = 1
        self._keys[place, slot], self._filled[place, slot] = 0, True
        for follower in self._followers:
            follower.written(label, slot, row, payload)

    def place_of(self, label: int) -> int:
        """The row of a class that has one."""
        return int(self.row_of[label])

    def _held_by(self, label: int, slot: int, row: int) -> WideOverwritten:
        place = self.place_of(label)
        return WideOverwritten(
            label,
            slot,
            row,
            self.slots[place, slot].copy(),
            self.by_class[place, slot, row:].copy(),
            self.grams[place, slot].copy(),
            self._facts_of(label, slot),
        )

    def _put_back(self) -> None:
        overwritten, self._overwritten = self._overwritten or [], None
        self.arrivals[:] = self._arrived
        for label, slot, row, feature, products, gram, facts in reversed(overwritten):
            place = self.place_of(label)
            for follower in self._followers:
                follower.replacing(label, slot, row)
            self.slots[place, slot], self.by_class[place, slot, row:] = feature, products
            self.grams[place, slot] = gram
            self.grams[place, :, slot] = gram
            self._put_back_facts(label, slot, facts)
            self.used[place, slot] = self.occupied[label, slot]
            for follower in self._followers:
                follower.restored(label, slot, row)
        for label in reversed(self._opened):  # the last row first, so that no row in between is left
            self.used_rows -= 1
            self.slots[self.used_rows], self.grams[self.used_rows] = 0, 0
            self.members[self.used_rows], self.row_of[label] = 0, -1
        self._opened.clear()

    def place(self, label: int, feature: Array, position: int) -> None:
        """Give a class an item that is known to be of it, between two blocks; see `Bank.place`."""
        row = self._row_for(label)
        super().place(label, feature, position)
        self._keys[row] = 0

    def drop(self, gone: NDArray[np.bool_]) -> None:
        """Take items out, (C, K); see `Bank.drop`."""
        super().drop(gone)
        self._keys[self.row_of[gone.any(axis=1)]] = 0

    def _move_items(self, label: int, slots: NDArray[np.int64]) -> None:
        """Let each slot of a class hold what `slots` held; -1: nothing."""
        held = self.slots[self.place_of(label)]
        held[:] = np.where(slots[:, None] < 0, np.float32(0), held[slots])

    def _lay_down(self, label: int, slot: int, feature: Array) -> None:
        self.slots[self.place_of(label), slot] = feature

    def items_in_turn(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """As a bank's, of no more classes than were asked for."""
        holding = np.flatnonzero((self.sources >= 0).any(axis=1))
        classes = holding[(first + np.arange(min(count, len(holding)))) % max(1, len(holding))]
        return classes, self.row_numbers(classes).astype(np.int32)

    def row_numbers(self, labels: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, K): where in `all_rows` the items of some classes lie; -1 for an empty slot."""
        chosen = np.asarray(labels, np.int64)
        numbers = self.row_of[chosen].astype(np.int64)[:, None] * self.used.shape[1] + np.arange(self.used.shape[1])
        return np.where((self.occupied[chosen] > 0) & (self.row_of[chosen] >= 0)[:, None], numbers, NOWHERE)

    def is_sound(self) -> bool:
        """Whether classes and rows fit together."""
        members = self.members[: self.used_rows]
        rows = np.full(self.classes, -1, np.int32)
        if members.size and not 0 <= members.min() <= members.max() < self.classes:
            return False
        rows[members] = np.arange(self.used_rows)
        return np.array_equal(rows, self.row_of)

    @property
    def all_rows(self) -> Array:
        """(rows, d): the items as they lie."""
        return self.slots.reshape(-1, self.slots.shape[2])

    @property
    def open_block(self) -> Block:
        """The block whose products are here."""
        if self._block is None:
            raise TrimtabError("No block is open, so nothing can be read out; call state.open(block) first.")
        return self._block

    def similarities(self, image: Image) -> Array:
        """(C, K): the image's inner products with every slot as it is now; 0 for empty slots."""
        found: Array = np.zeros(self.scores.shape, np.float32)
        if self._anchors is not None:
            found[:, 0] = image.logits / image.logit_scale
        found[self.members[: self.used_rows]] = self.by_class[: self.used_rows, :, self.row(image)]
        return found

    def _row_for(self, label: int) -> int:
        """The row of a class; a new one is empty but for its anchor."""
        place = int(self.row_of[label])
        if place >= 0:
            return place
        place = self.used_rows
        self.make_room(place + 1)
        self.used_rows += 1
        self.row_of[label], self.members[place] = place, label
        if self._overwritten is not None:
            self._opened.append(label)
        self.used[place] = self.occupied[label]
        if self._block is not None:
            self.by_class[place] = 0
        if self._anchors is not None:
            anchor = self._anchors[label]
            self.slots[place, 0] = anchor
            self.grams[place, 0, 0] = anchor @ anchor
            if self._block is not None:
                self.by_class[place, 0] = self._block.logits[:, label] / self._block.logit_scales
        for follower in self._followers if self._block is not None else ():
            opened = getattr(follower, "opened", None)
            if opened is not None:
                opened(label)
        return place


def hold_like(state: State, arrays: Arrays, prefix: str = "state.") -> None:
    """Let the wide banks of a state have as many classes as the arrays hold that are about to be copied into it."""
    for name, part in state._parts():
        if isinstance(part, WideBank):
            part.hold_rows(len(arrays[f"{prefix}{name}.features"]))
        elif isinstance(part, State):
            hold_like(part, arrays, f"{prefix}{name}.")


@njit(nogil=True)
def first_of_equals(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each different key stands first, and which of these each key (N,) is equal to."""
    rooms = 2
    while rooms < 2 * len(keys):
        rooms *= 2
    table = np.full(rooms, -1, np.int64)  # by the key's last bits and, where that is taken, after it
    firsts, which, count = np.empty_like(keys), np.empty_like(keys), 0
    for k in range(len(keys)):
        room = keys[k] & (rooms - 1)
        while table[room] >= 0 and keys[firsts[table[room]]] != keys[k]:
            room = (room + 1) & (rooms - 1)
        if table[room] < 0:
            table[room], firsts[count] = count, k
            count += 1
        which[k] = table[room]
    return firsts[:count], which


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for `size` rows."""
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _refuse_too_large(classes: int, dim: int) -> None:
    """One sentence instead of a machine that swaps: a block's logits alone are classes x 64 numbers, several times."""
    needed = classes * (4 * dim + 4 * 64 * BLOCKS_OF_LOGITS)
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else needed
    if needed > available:
        raise TrimtabError(
            f"{classes:,} classes of {dim} dimensions need about {needed >> 30} GB, and this machine has "
            f"{available >> 30}; take a shortlist of the classes first (trimtab.shortlist)."
        )
