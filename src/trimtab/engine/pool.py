"""Where a bank's items lie: each in one row, however many slots hold it.

Two caches often hold the same image, and slots are often empty. So items lie in rows of their own, in use from the
first row on, and a slot knows the row of its item. All that is read and multiplied is then what there is, once.

A row belongs to the slots that hold its item. With the last of them it is free, zero, and the next item takes the
lowest one; so where everything lies is a function of what was written, and a state that is put back is bit for bit as
before. An image that must leave no trace lies in one of a few spare rows, behind all others.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, aligned_zeros
from trimtab.engine.compiled import njit

SPARE = 4  # rows behind all others: writes of one image, its own class's, the vote's, the one after reflection, and one
NOWHERE = -1  # instead of the row of an empty slot

USED, FREE = range(2)  # places in `figures`: rows up to the last in use; the lowest that is free
POSITION, ROW = range(2)  # places in `newest`


class Rows(NamedTuple):
    """The rows and who holds them, as compiled loops take them; N = C K."""

    features: Array  # (N + SPARE, d)
    places: NDArray[np.int32]  # (C, K): the row of each slot's item, or NOWHERE
    holders: NDArray[np.int32]  # (N,): how many slots hold each row
    figures: NDArray[np.int64]  # (2,)
    newest: NDArray[np.int64]  # (2,): the last image that was laid down, by its position in the stream, and its row


def new_rows(classes: int, slots: int, dim: int, anchors: Array | None) -> Rows:
    """No items but the anchors, if there are any: one for slot 0 of each class."""
    rows = Rows(
        aligned_zeros((classes * slots + SPARE, dim)),
        np.full((classes, slots), NOWHERE, np.int32),
        np.zeros(classes * slots, np.int32),
        np.zeros(2, np.int64),
        np.full(2, NOWHERE, np.int64),
    )
    if anchors is not None:
        rows.features[:classes], rows.holders[:classes], rows.figures[:] = anchors, 1, classes
        rows.places[:, 0] = np.arange(classes)
    return rows


@njit(nogil=True)
def lay_down(rows: Rows, label: int, slot: int, feature: Array, position: int) -> None:
    """Let a slot hold a feature, in a row of its own.

    A feature that stands for the image at this `position` of the stream is laid down once and then shared; one that
    stands for no image has NOWHERE for a position.
    """
    before, newest = rows.places[label, slot], rows.newest
    if position != NOWHERE and newest[POSITION] == position and rows.holders[newest[ROW]] > 0:
        rows.holders[newest[ROW]] += 1
        rows.places[label, slot] = newest[ROW]
        if before != NOWHERE:
            release(rows, before)
        return
    if before != NOWHERE:
        release(rows, before)
    row = rows.figures[FREE]
    rows.places[label, slot], rows.holders[row] = row, 1
    _copy(feature, rows.features[row])
    free = row + 1
    while free < len(rows.holders) and rows.holders[free] > 0:
        free += 1
    rows.figures[FREE], rows.figures[USED] = free, max(rows.figures[USED], row + 1)
    newest[POSITION], newest[ROW] = position, row


@njit(nogil=True)
def release(rows: Rows, row: int) -> None:
    """A slot lets go of what lies in a row."""
    rows.holders[row] -= 1
    if rows.holders[row] > 0:
        return
    rows.features[row] = 0
    rows.figures[FREE] = min(rows.figures[FREE], row)
    while rows.figures[USED] > 0 and rows.holders[rows.figures[USED] - 1] == 0:
        rows.figures[USED] -= 1


class Lay(NamedTuple):
    """Where a slot's item lay before it was written over, and all that a write changes of the rows."""

    place: int
    figures: NDArray[np.int64]
    newest: NDArray[np.int64]
    feature: Array


def lay_of(rows: Rows, label: int, slot: int) -> Lay:
    """Copies, to be put back."""
    place = int(rows.places[label, slot])
    return Lay(place, rows.figures.copy(), rows.newest.copy(), rows.features[place].copy())


def put_back(rows: Rows, label: int, slot: int, lay: Lay) -> None:
    """Undo the last write that is not undone yet: a slot holds what it held, and the rows are bit for bit as before."""
    after, rows.places[label, slot] = rows.places[label, slot], lay.place
    rows.holders[after] -= 1
    if rows.holders[after] == 0:
        rows.features[after] = 0
    if lay.place != NOWHERE:
        rows.features[lay.place] = lay.feature
        rows.holders[lay.place] += 1
    rows.figures[:], rows.newest[:] = lay.figures, lay.newest


def move(rows: Rows, label: int, slots: NDArray[np.int64]) -> None:
    """Let each slot of a class hold what `slots` held; -1: nothing. What none holds any longer goes."""
    before = rows.places[label].copy()
    rows.places[label] = np.where(slots < 0, NOWHERE, before[slots])
    for gone in set(range(len(slots))) - set(slots.tolist()):
        if before[gone] != NOWHERE:
            release(rows, int(before[gone]))


def are_sound(rows: Rows, occupied: Array) -> bool:
    """Whether slots and rows fit together; those of a file that somebody has made need not."""
    held = rows.places != NOWHERE
    places = rows.places[held]
    if places.size and not 0 <= places.min() <= places.max() < len(rows.holders):
        return False
    counted = np.bincount(places, minlength=len(rows.holders))
    in_use = np.flatnonzero(counted)
    used, free = (int(in_use[-1]) + 1 if len(in_use) else 0), int(np.argmin(np.append(counted, 0) > 0))
    return (
        np.array_equal(rows.holders, counted)
        and np.array_equal(held, occupied > 0)
        and rows.figures.tolist() == [used, free]
    )


@njit(nogil=True)
def _copy(feature: Array, out: Array) -> None:
    for k in range(len(out)):
        out[k] = feature[k]
