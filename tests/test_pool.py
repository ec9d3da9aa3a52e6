"""Where items lie: each once, in the lowest row that is free, and rows that nobody holds are zero."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentle import gentle_stream
from trimtab import MCP
from trimtab.engine.bank import Bank
from trimtab.engine.pool import FREE, NOWHERE, SPARE, USED, lay_down, new_rows, release

CLASSES, SLOTS, DIM = 3, 4, 2


def check(rows, held):
    """The rows against a plain dictionary: slot -> number of its item."""
    for (label, slot), number in held.items():
        place = rows.places[label, slot]
        assert (place == NOWHERE) == (number is None)
        if number is not None:
            assert rows.features[place].tolist() == [number, number]
    counts = np.bincount(rows.places[rows.places != NOWHERE], minlength=CLASSES * SLOTS)
    assert rows.holders.tolist() == counts.tolist()
    assert not rows.features[:-SPARE][counts == 0].any()
    assert rows.figures[USED] == max(np.flatnonzero(counts), default=-1) + 1
    assert rows.figures[FREE] == (int((counts == 0).argmax()) if (counts == 0).any() else CLASSES * SLOTS)


writes = st.tuples(st.integers(0, CLASSES - 1), st.integers(0, SLOTS - 1), st.integers(0, 2), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(writes, max_size=60))
def test_rows_hold_what_a_plain_dictionary_holds(written):
    """Images come one after the other and are written into a few slots each; some slots are emptied."""
    rows = new_rows(CLASSES, SLOTS, DIM, None)
    held: dict[tuple[int, int], int | None] = {(c, k): None for c in range(CLASSES) for k in range(SLOTS)}
    position = 0
    for label, slot, skipped, emptied in written:
        position += skipped
        before = rows.places[label, slot]
        if emptied and before != NOWHERE:
            rows.places[label, slot], held[label, slot] = NOWHERE, None
            release(rows, before)
        else:
            lay_down(rows, label, slot, np.full(DIM, position, np.float32), position)
            held[label, slot] = position
        check(rows, held)
    different = {number for number in held.values() if number is not None}
    assert (rows.holders > 0).sum() >= len(different)


def test_an_image_lies_once_and_other_features_by_themselves():
    rows, image = new_rows(CLASSES, SLOTS, DIM, None), np.ones(DIM, np.float32)
    for label in range(CLASSES):
        lay_down(rows, label, 1, image, 7)
    lay_down(rows, 0, 2, image, NOWHERE)
    lay_down(rows, 0, 3, image, NOWHERE)
    assert rows.places[:, 1].tolist() == [0, 0, 0]
    assert rows.places[0].tolist() == [NOWHERE, 0, 1, 2]
    lay_down(rows, 0, 1, 2 * image, 8)
    assert rows.features[0].tolist() == [1, 1], "two slots still hold it"
    assert rows.places[0, 1] == 3


def test_two_caches_share_an_image():
    task, features = gentle_stream(classes=7, dim=12, views=1, images=150, seed=3)
    stream = MCP().start(task)
    stream.run(features)
    bank = stream.state.caches.bank
    images = len(set(bank.sources[bank.sources >= 0].tolist()))
    assert bank.rows.figures[USED] == task.classes + images < bank.occupied.sum() - 20
    for label, slot in np.argwhere(bank.sources >= 0).tolist():
        np.testing.assert_allclose(bank.item(label, slot), features[bank.sources[label, slot], 0], atol=1e-6)
    assert bank.is_sound()


@pytest.mark.parametrize("size", [1, 2])
def test_a_bank_is_unsound_whose_slots_and_rows_do_not_fit(size):
    bank = Bank(3, 4, {"some": size})
    assert bank.is_sound()
    bank.rows.places[1, 0] = 2
    assert not bank.is_sound()
    bank.rows.holders[2] = 1
    assert not bank.is_sound(), "the slot is empty"
    bank.occupied[1, 0] = 1
    bank.rows.figures[:] = 3, 0
    assert bank.is_sound()
