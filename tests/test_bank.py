"""The bank keeps its products and Gram matrices exact, and admits what its rules say."""

import numpy as np
import pytest

from trimtab.checks import random_stream
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block
from trimtab.engine.readouts import MeanProducts, NegativePenalties


@pytest.fixture
def walk():
    """A bank with two sections beside the text, and a block of images to write."""
    task, features = random_stream(classes=4, dim=8, views=1, images=30, seed=2)
    bank = Bank(4, 8, {"first": 3, "second": 2}, anchors=task.text_prototypes)
    block = Block(task, features, first=100)
    bank.open(block)
    return bank, block


def test_products_and_gram_stay_exact_on_writes(walk):
    bank, block = walk
    random = np.random.default_rng(0)
    for image in block:
        bank.write(int(random.integers(4)), int(random.integers(1, 6)), image, score=0.0)
        np.testing.assert_allclose(bank.similarities(image), bank.features @ image.feature, atol=1e-6)
        expected = np.einsum("ckd,cld->ckl", bank.features, bank.features)
        np.testing.assert_allclose(bank.gram, expected, atol=1e-6)


def test_room_is_filled_first_then_the_worst_goes(walk):
    bank, block = walk
    images = list(block)
    slots = [bank.offer("first", 2, images[i], score) for i, score in enumerate([0.5, 0.9, 0.1])]
    assert slots == [1, 2, 3]
    assert bank.offer("first", 2, images[3], 0.9) is None, "an equal score does not replace"
    assert bank.offer("first", 2, images[4], 0.8) == 2
    assert bank.scores[2, 1:4].tolist() == pytest.approx([0.5, 0.8, 0.1])
    assert bank.sources[2, 1:4].tolist() == [100, 104, 102], "positions in the stream, not in the block"
    assert bank.count("first", 2) == 3
    assert bank.count("second", 2) == 0


def test_the_oldest_slot_and_the_free_one(walk):
    bank, block = walk
    images = list(block)
    assert bank.free_slot("second", 0) == 4
    bank.offer("second", 0, images[5], 0.3)
    bank.offer("second", 0, images[1], 0.2)
    assert bank.free_slot("second", 0) is None
    assert bank.oldest_slot("second", 0) == 5


def test_a_section_without_slots_takes_nothing():
    task, features = random_stream(classes=3, dim=4, views=1, images=2, seed=0)
    bank = Bank(3, 4, {"off": 0, "on": 1})
    block = Block(task, features, first=0)
    bank.open(block)
    image = next(iter(block))
    assert bank.offer("off", 1, image, 0.0) is None
    assert bank.offer("on", 1, image, 0.0) == 0


def test_a_held_bank_takes_its_writes_back_and_its_followers_with_it(walk):
    bank, block = walk
    images = list(block)
    means = MeanProducts(bank, slice(1, 4))
    against = NegativePenalties(bank, bank.sections["second"], 1.0, 1.0, 0.1, 1.0)
    bank.open(block)
    plausible = np.array([0.3, 0.3, 0.2, 0.2], np.float32)
    bank.offer("first", 1, images[0], 0.5)
    bank.offer("second", 1, images[1], 0.5, payload=plausible)
    arrays = {**bank.arrays(), **against.arrays()}
    before = {name: array.copy() for name, array in arrays.items()}
    tables = [means.at(images[9]), against.at(images[9]), means.present.copy(), bank.similarities(images[9])]

    put_back = bank.hold()
    bank.offer("first", 3, images[4], 0.1)  # the only item of its class
    bank.write(1, 1, images[4], 0.1)
    bank.write(1, 1, images[4], 0.0, feature=images[5].plain)  # the same slot twice
    bank.write(1, 4, images[4], 0.1, payload=plausible[::-1].copy())
    assert means.present[3]
    put_back()

    for name, array in arrays.items():
        assert np.array_equal(array, before[name]), name
    now = [means.at(images[9]), against.at(images[9]), means.present, bank.similarities(images[9])]
    for table, found in zip(tables, now, strict=True):
        np.testing.assert_allclose(found, table, atol=1e-6)
    assert not bank.held


def test_an_item_that_has_outlived_its_time_gives_way_to_a_worse_one():
    """Two slots, a lifetime of 3 images each: after more than six images of the class the oldest goes."""
    task, features = random_stream(classes=2, dim=8, views=1, images=9, seed=0)
    bank = Bank(2, 8, {"cache": 2}, lifetime=3)
    block = Block(task, features, 0, 1.0, "plain")
    bank.open(block)
    for image, score in zip((block[i] for i in range(9)), (0.1, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9), strict=True):
        bank.arrivals[0] += 1
        bank.offer("cache", 0, image, score)
    assert sorted(bank.sources[0].tolist()) == [7, 8]
    bank.grow_older(0, clear=False)
    assert bank.offer("cache", 0, block[8], 0.0) is None, "closed while the text is not clear"
    bank.grow_older(0, clear=True)
    assert bank.offer("cache", 0, block[8], 0.0) is not None
    lasting = Bank(2, 8, {"cache": 2})
    lasting.open(block)
    for position, score in enumerate((0.1, 0.2, 0.9)):
        lasting.arrivals[0] += 100
        lasting.offer("cache", 0, block[position], score)
    assert sorted(lasting.sources[0].tolist()) == [0, 1]
