"""A block walked in one compiled loop against one step per image: the same writes, the same predictions."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest

from gentle import gentle_stream
from trimtab import DMN, MCP, TDA, BoostAdapter, Keel, MCPPlus, Stream, ZeroShot, ZeroVote
from trimtab.methods.base import Method
from trimtab.methods.three_cache_method import PAPER_FORM
from trimtab.methods.three_caches_walk import looks_of

WALKED: dict[str, tuple[type[Method], dict[str, Any]]] = {
    "mcp": (MCP, {}),
    "mcp, paper": (MCP, {"prototype_term": "affinity", "fusion": (1.0, 1.0, 1.0)}),
    "mcp, mean of views": (MCP, {"query": "confident_mean", "view_fraction": 0.5, "entropy_high": 0.69}),
    "mcp, small": (MCP, {"entropy_slots": 1, "align_slots": 2, "negative_slots": 1, "promotion": False}),
    "mcp, no align cache": (MCP, {"align_slots": 0, "text_scale": "stream"}),
    "tda": (TDA, {"entropy_high": 0.69}),
    "tda, plain": (TDA, {"query": "plain", "negative_slots": 0}),
    "boostadapter": (BoostAdapter, {"entropy_high": 0.69, "view_fraction": 0.8, "negative_slots": 3}),
    "boostadapter, mean of views": (BoostAdapter, {"query": "confident_mean", "view_fraction": 0.5, "boost_slots": 0}),
    "dmn": (DMN, {"memory_slots": 3}),
    "keel": (Keel, {}),
    "mcp++": (MCPPlus, {"learning_rate": 1e-3}),
    "mcp++, paper": (MCPPlus, {**PAPER_FORM, "learning_rate": 1e-3, "fusion": (1.0, 1.0, 1.0)}),
    "mcp++, one side": (MCPPlus, {"one_sided": True, "temperature": 0.1, "contrast_weight": 0, "learning_rate": 1e-3}),
    "zero-shot": (ZeroShot, {}),
    "zero": (ZeroVote, {"view_fraction": 0.5, "fusion": (1.0, 1.0, 1.0)}),
}


def stepped(method: type[Method], **parameters: Any) -> Method:
    """The same method, taking one image at a time."""

    @dataclass(frozen=True, kw_only=True)
    class Stepped(method):  # type: ignore[valid-type, misc]
        """Inherits all but the walk."""

    return Stepped(**parameters)


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("views", [1, 4])
def test_a_walk_is_one_step_after_the_other(name: str, views: int) -> None:
    method, parameters = WALKED[name]
    task, features = gentle_stream(classes=7, dim=12, views=views, images=150, seed=3)
    walked, by_steps = method(**parameters).start(task), stepped(method, **parameters).start(task)
    found, expected = walked.run(features, block=32), by_steps.run(features, block=32)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)
    for part, values in expected.parts.items():
        np.testing.assert_allclose(found.parts[part], values, atol=1e-5, err_msg=part)
    for array, values in by_steps.arrays().items():
        exact = values.dtype.kind in "ib"
        np.testing.assert_allclose(walked.arrays()[array], values, atol=0 if exact else 1e-4, err_msg=array)
    assert walked.seen == 150


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("views", [1, 4])
def test_images_that_are_not_learned_from_are_answered_and_leave_no_trace(name: str, views: int) -> None:
    method, parameters = WALKED[name]
    task, features = gentle_stream(classes=7, dim=12, views=views, images=150, seed=3)
    learned = np.random.default_rng(0).random(150) < 0.6
    learned[:3] = False  # they would be the first items of their classes
    walked, by_steps = method(**parameters).start(task), stepped(method, **parameters).start(task)
    for first in range(0, 150, 50):
        rows = slice(first, first + 50)
        found = answers_of(walked, features[rows], learned[rows])
        expected = answers_of(by_steps, features[rows], learned[rows])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    for array, values in by_steps.arrays().items():
        exact = values.dtype.kind in "ib"
        np.testing.assert_allclose(walked.arrays()[array], values, atol=0 if exact else 1e-4, err_msg=array)


def answers_of(stream: Stream, views: Any, learned: Any) -> Any:
    """(N, C): the answers to a block's images, of which some are learned from."""
    (block,) = stream._blocks(views)
    return np.concatenate([fused for _, fused, _ in stream._learn(block, learned)])


def test_a_single_image_finds_the_products_that_a_block_finds() -> None:
    task, features = gentle_stream(classes=7, dim=12, views=1, images=150, seed=3)
    stream = MCP().start(task)
    stream.run(features[:149])
    bank = stream.state.caches.bank
    shared = [len(held) - len(set(held)) for held in (row[row >= 0].tolist() for row in bank.sources)]
    assert sum(shared) > 20, "two caches hold the same image"
    for _ in range(2):  # as it is, and after items have left
        (block,) = stream._blocks(features[149:])
        stream.state.open(block)
        expected = np.einsum("ckd,d->ck", bank.features, block.queries[0])
        np.testing.assert_allclose(bank.similarities(block[0]), expected, atol=1e-6)
        (alone,) = stream._blocks(features[149:])  # which has to multiply with the text itself
        stream.state.temper.before_judging(alone)
        np.testing.assert_array_equal(block.logits, alone.logits)
        bank.forget(np.arange(0, 150, 2))


@pytest.mark.parametrize("query", ["plain", "confident_mean"])
def test_a_loop_finds_the_same_types_whatever_the_views(query: Any) -> None:
    """Code is looked up once for blocks of a size, so arguments may not change their types, nor arrays their order."""
    task, _ = gentle_stream(classes=7, dim=12, views=1, images=1, seed=3)
    found = set()
    for views, images in ((1, 1), (3, 1), (30, 1), (1, 9), (30, 9)):
        _, features = gentle_stream(classes=7, dim=12, views=views, images=images, seed=3)
        stream = MCP(query=query).start(task)
        (block,) = stream._blocks(features)
        stream.state.before_judging(block)
        arrays = *looks_of(block), block.queries, block.among, block.sure
        found.add(tuple(numba.typeof(array) for array in arrays))
    (types,) = found
    assert {array.layout for array in types} == {"C"}


def test_what_a_subclass_changes_is_not_walked_past() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Silent(MCP):
        """Says nothing of what it keeps."""

        def predict(self, image: Any, state: Any) -> dict[str, Any]:
            return dict.fromkeys(self.parts, image.vote)

    task, features = gentle_stream(classes=5, dim=8, views=1, images=40, seed=0)
    result = Silent(fusion=(1.0, 1.0, 1.0)).start(task).run(features)
    np.testing.assert_allclose(result.probabilities, result.parts["text"], atol=1e-6)
