"""A bank and its read-outs as compiled loops take them: plain tuples of arrays.

`Bank.compiled` and `Bank.readouts` give them for the open block. A read-out that a method does not have is one without
slots (`NO_MEANS` and its like).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.pool import SPARE, Rows


class Slots(NamedTuple):
    """What a bank holds, and the products of the open block; see `Bank`."""

    rows: Rows  # where items lie
    scores: Array  # (C, K)
    sources: NDArray[np.int64]  # (C, K)
    occupied: Array  # (C, K)
    gram: Array  # (C, K, K)
    products: Array  # (N + SPARE, B)
    at: NDArray[np.int32]  # (C, K): where in `products` a slot's are
    queries: Array  # (B, d)
    among: Array  # (B, B): the products of the block's images with each other
    first: int  # position of the block's first image in the stream
    births: NDArray[np.int64]  # (C, K): the class's arrivals when the item came
    arrivals: NDArray[np.int64]  # (C,): the class's clock, in images of it
    lifetime: int  # arrivals per slot of a section after which its items give way; 0: never
    closed: NDArray[np.bool_]  # (1,): whether full sections take nothing, for the image at hand


class Means(NamedTuple):
    """`readouts.MeanProducts`."""

    start: int
    stop: int
    table: Array  # (C, B)
    present: NDArray[np.bool_]  # (C,): whether the class holds an item


class Affinities(NamedTuple):
    """`readouts.AffinitySums`."""

    start: int
    stop: int
    alpha: np.float32
    beta: np.float32
    table: Array  # (C, B)


class Retrieved(NamedTuple):
    """`readouts.RetrievalCosines`."""

    stop: int
    beta: np.float32
    table: Array  # (C, B)


class Penalties(NamedTuple):
    """`readouts.NegativePenalties`."""

    start: int
    stop: int
    alpha: np.float32
    beta: np.float32
    low: np.float32
    high: np.float32
    marked: NDArray[np.int32]  # (C, n, M)
    counts: NDArray[np.int32]  # (C, n)
    table: Array  # (C, B)


class ReadOuts(NamedTuple):
    """Everything that follows a bank."""

    means: Means
    affinities: Affinities
    retrieved: Retrieved
    penalties: Penalties


ReadOut = Means | Affinities | Retrieved | Penalties


class Visit(NamedTuple):
    """Which images of a block are learned from; and what one that is not has overwritten, to be put back after it."""

    learned: NDArray[np.bool_]  # (B,)
    writes: NDArray[np.int64]  # (1,): writes of the image at hand; the rows below that are in use
    places: NDArray[np.int64]  # (n, 5): class, slot, and the slot's source, birth and row before
    numbers: Array  # (n, 3): the slot's score and whether it was occupied; its product with the image
    grams: Array  # (n, K)
    present: NDArray[np.bool_]  # (n,): whether the class held an item
    marked: NDArray[np.int32]  # (n, M)
    counts: NDArray[np.int32]  # (n,)


def room_for_a_visit(slots: int, readouts: ReadOuts) -> tuple[NDArray[Any], ...]:
    """Room to take back what an image of a block writes: all of a `Visit` but its first field."""
    most = SPARE
    return (
        np.zeros(1, np.int64),
        np.empty((most, 5), np.int64),
        np.empty((most, 3), np.float32),
        np.empty((most, slots), np.float32),
        np.empty(most, np.bool_),
        np.empty((most, readouts.penalties.marked.shape[2]), np.int32),
        np.empty(most, np.int32),
    )


_NO_TABLE: Array = np.zeros((0, 0), np.float32)
NO_MEANS = Means(0, 0, _NO_TABLE, np.zeros(0, np.bool_))
NO_RETRIEVED = Retrieved(0, np.float32(0), _NO_TABLE)
NO_AFFINITIES = Affinities(0, 0, np.float32(0), np.float32(0), _NO_TABLE)
NO_PENALTIES = Penalties(
    0,
    0,
    np.float32(0),
    np.float32(0),
    np.float32(0),
    np.float32(0),
    np.zeros((0, 0, 0), np.int32),
    np.zeros((0, 0), np.int32),
    _NO_TABLE,
)


def joined(found: Sequence[ReadOut]) -> list[ReadOuts]:
    """The read-outs of a bank by their kind: one set of them, unless a bank has several of a kind."""
    sets: list[dict[type, ReadOut]] = [{}]
    for readout in found:
        free = next((kinds for kinds in sets if type(readout) not in kinds), None)
        if free is None:
            free = {}
            sets.append(free)
        free[type(readout)] = readout
    none = {Means: NO_MEANS, Affinities: NO_AFFINITIES, Retrieved: NO_RETRIEVED, Penalties: NO_PENALTIES}
    return [ReadOuts(*(kinds.get(kind, nothing) for kind, nothing in none.items())) for kinds in sets]  # type: ignore[arg-type]
