"""What a bank asks of whoever follows it, and what it remembers of a write that may be taken back."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.engine import tables
from trimtab.engine.arrays import Array
from trimtab.engine.pool import Lay


class Follower(Protocol):
    """What must know of a bank's blocks and writes: a read-out. `Bank.write` is the one door, so none is missed."""

    def make_room(self) -> None:
        """A block of another size than the last is about to be opened."""

    def compiled(self) -> tables.ReadOut | None:
        """The table as compiled loops take it, and fill it when a block opens; None where there is no such table."""

    def open(self) -> None:
        """A new block of images has been opened; asked of followers without a table."""

    def replacing(self, label: int, slot: int, first_image: int) -> None:
        """A slot of a class is about to be written; what it holds still counts for the images before `first_image`."""

    def written(self, label: int, slot: int, first_image: int, payload: Array | None) -> None:
        """A slot of a class was written; it matters to the block's images from `first_image` on."""

    def restored(self, label: int, slot: int, first_image: int) -> None:
        """The last write of a slot was taken back, after `replacing` was called for what it had put there."""

    def moved(self, label: int, slots: NDArray[np.int64]) -> None:
        """Items of a class were taken out between two blocks: each slot now holds what `slots` held; -1: nothing."""


Facts = tuple[np.float32, np.int64, np.float32, np.int64]  # a slot's score, source, whether it is occupied, and birth


class Overwritten(NamedTuple):
    """What a slot held before a write, and what the block's images from `row` on had in common with it."""

    label: int
    slot: int
    row: int
    lay: Lay
    products: Array
    gram: Array
    facts: Facts
