"""What a method's author or user can get wrong is refused with a sentence, at once."""

import numpy as np
import pytest

from trimtab import DMN, MCP, TrimtabError, ZeroVote, make_method
from trimtab.checks import check_method, random_stream
from trimtab.engine import Bank, Block, MeanProducts, NegativePenalties
from trimtab.registry import method_class


@pytest.fixture
def opened():
    task, features = random_stream(classes=3, dim=4, views=1, images=5, seed=0)
    bank = Bank(3, 4, {"some": 2})
    mean = MeanProducts(bank, bank.sections["some"])
    block, other = Block(task, features, first=0), Block(task, features, first=0)
    bank.open(block)
    return bank, mean, next(iter(block)), next(iter(other))


def test_an_image_of_another_block_is_refused(opened):
    bank, mean, _, stranger = opened
    for wrong in (
        lambda: bank.similarities(stranger),
        lambda: bank.write(0, 0, stranger, 0.0),
        lambda: mean.at(stranger),
    ):
        with pytest.raises(TrimtabError, match="not of the block that the bank was opened for"):
            wrong()
    assert not bank.occupied.any(), "a refused image was written"


def test_a_negative_item_needs_its_probabilities():
    task, features = random_stream(classes=3, dim=4, views=1, images=2, seed=0)
    bank = Bank(3, 4, {"negative": 2})
    NegativePenalties(bank, bank.sections["negative"], 1.0, 1.0, 0.03, 1.0)
    block = Block(task, features, first=0)
    bank.open(block)
    with pytest.raises(TrimtabError, match="with its probabilities as the payload"):
        bank.write(0, 0, next(iter(block)), 0.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ZeroVote(fusion="auto"), "fusion 'auto' weighs parts beside a first part 'text'"),
        (lambda: DMN(fusion=(1.0,)), "1 weights but the prediction has 2 parts"),
        (lambda: DMN(fusion="best"), "fusion must be 'auto', 'auto-orderless' or one weight for each part"),
        (lambda: ZeroVote(fusion=(1.0, 0.0)), "2 weights but the prediction has 3 parts"),
        (lambda: ZeroVote(fusion=(0.0, 0.0, 0.0)), "not all 0"),
        (lambda: make_method("tda", parts=("x",)), "tda has no parameter 'parts'"),
        (lambda: make_method("mcp", name="mine"), "mcp has no parameter 'name'"),
    ],
)
def test_a_wrong_method_is_refused_when_it_is_built(build, message):
    with pytest.raises(TrimtabError, match=message):
        build()


def test_weights_given_as_a_list_are_the_same_method():
    assert MCP(fusion=[1.0, 1.0, 1.0]) == MCP(fusion=(1.0, 1.0, 1.0))


class Hoarding(MCP):
    """Keeps every image it has met, where nobody looks."""

    def new_state(self, task):
        state = super().new_state(task)
        state.hoard = []
        return state

    def observe(self, image, state):
        super().observe(image, state)
        state.hoard.append(image.position)


def test_memory_that_grows_outside_of_the_arrays_is_noticed():
    with pytest.raises(AssertionError, match="outside of `arrays"):
        check_method(Hoarding(), images=60)


def test_an_entry_point_of_another_name_is_refused(monkeypatch):
    class Entry:
        name, value = "nearest", "package:Recent"

        def load(self):
            return MCP

    monkeypatch.setattr("trimtab.registry.entry_points", lambda group: [Entry()])
    with pytest.raises(TrimtabError, match="entry point 'nearest' leads to package:Recent, whose name is 'mcp'"):
        method_class("nearest")


def test_step_gives_what_observing_and_predicting_give():
    task, features = random_stream(classes=5, dim=8, views=1, images=30, seed=3)
    method = MCP()
    walked, asked = method.new_state(task), method.new_state(task)
    for first in range(len(features)):
        block, same = (method.look(task, features[first : first + 1], first) for _ in range(2))
        walked.open(block)
        asked.open(same)
        image, twin = next(iter(block)), next(iter(same))
        method.observe(twin, asked)
        expected = method.predict(twin, asked)
        for name, part in method.step(image, walked).items():
            np.testing.assert_array_equal(part, expected[name])
