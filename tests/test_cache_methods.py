"""TDA, DMN, BoostAdapter and ZERO against the released programs' streams and against the plain-loop oracles."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentle import gentle_stream
from oracle.boostadapter import run_boostadapter
from oracle.dmn import run_dmn
from oracle.tda import run_tda
from oracle.zero_vote import run_zero_vote
from trimtab import Task, make_method
from trimtab.engine import softmax
from trimtab.methods.base import Method

GOLDEN = Path(__file__).parent / "golden"
NOT_PARAMETERS = ("logit_scale", "kind", "cfg")


def golden(name: str) -> tuple[Any, Task, dict[str, Any]]:
    data = np.load(GOLDEN / f"{name}.npz")
    text = data["text_prototypes"]
    task = Task([str(c) for c in range(len(text))], text, float(data["logit_scale"]))
    found = {key: data[key].item() for key in data.files if data[key].ndim == 0 and key not in NOT_PARAMETERS}
    return data, task, found


def final_logits(method: Any, task: Task, views: Any, block: int = 16) -> Any:
    """The logits that a released program prints, image by image, from blocks as `run` makes them."""
    state, rows = method.new_state(task), []
    text = method.moving_text(state)
    size = block if text is None else 1
    for first in range(0, len(views), size):
        images = method.look(task, views[first : first + size], first, text and text.units)
        state.open(images)
        rows += [logits_of_step(method, image, state) for image in images]
    return np.array(rows)


def logits_of_step(method: Any, image: Any, state: Any) -> Any:
    if hasattr(method, "adapt"):
        return method.adapt(image, state)
    method.observe(image, state)
    return method.logits(image, state)


def assert_equal_logits(found: Any, released: Any, tolerance: float) -> None:
    """Both as probabilities within the tolerance, and the same class for every image."""
    found, released = (softmax(np.asarray(logits, np.float32)) for logits in (found, released))
    np.testing.assert_allclose(found, released, atol=tolerance, rtol=0)
    np.testing.assert_array_equal(found.argmax(axis=1), released.argmax(axis=1))


@pytest.mark.parametrize("name", ["tda_single_view", "tda_many_views"])
def test_tda_equals_the_released_program(name: str) -> None:
    data, task, parameters = golden(name)
    assert_equal_logits(final_logits(make_method("tda", **parameters), task, data["views"]), data["logits"], 2e-5)


def test_boostadapter_equals_the_released_program() -> None:
    data, task, _ = golden("boostadapter")
    released = json.loads(data["cfg"].item())
    method = make_method(
        "boostadapter",
        boost_slots=released["delta"],
        positive_slots=released["positive"]["shot_capacity"],
        positive_alpha=released["positive"]["alpha"],
        positive_beta=released["positive"]["beta"],
        negative_slots=released["negative"]["shot_capacity"],
    )
    assert_equal_logits(final_logits(method, task, data["views"]), data["logits"], 2e-5)


def test_dmn_equals_the_released_program() -> None:
    data, task, parameters = golden("dmn")
    dynamic = make_method("dmn", **parameters).start(task).run(data["views"]).parts["dynamic"]
    np.testing.assert_allclose(dynamic, data["logits"], atol=1e-5, rtol=0)


def assert_equal_streams(method: Method, oracle: Callable[..., Any], task: Task, features: Any, **options: Any) -> None:
    expected = oracle(features, task.text_prototypes, task.logit_scale, **options)
    parts = method.start(task).run(features, block=11).parts
    for part, values in parts.items():
        reference = expected.get(part, expected.get("probabilities"))
        np.testing.assert_allclose(values, reference, atol=2e-4, rtol=0, err_msg=part)


STREAMS = {
    "classes": st.integers(2, 9),
    "dim": st.integers(2, 12),
    "views": st.sampled_from([1, 2, 11, 20]),
    "images": st.integers(1, 60),
    "seed": st.integers(0, 10_000),
}
ORDERS = st.sampled_from(["write_first", "predict_first"])
QUERIES = st.sampled_from(["plain", "confident_mean"])
CACHES = {
    "positive_slots": st.integers(0, 4),
    "negative_slots": st.integers(0, 3),
    "entropy_low": st.sampled_from([0.02, 0.2]),
    "entropy_high": st.sampled_from([0.5, 0.69]),
    "mask_low": st.sampled_from([0.0, 0.03, 0.3]),
    "order": ORDERS,
    "query": QUERIES,
}


@settings(max_examples=40, deadline=None)
@given(stream=st.fixed_dictionaries(STREAMS), options=st.fixed_dictionaries(CACHES))
def test_tda_equals_the_plain_loops(stream: dict[str, int], options: dict[str, Any]) -> None:
    task, features = gentle_stream(**stream)
    assert_equal_streams(make_method("tda", **options), run_tda, task, features, **options)


@settings(max_examples=40, deadline=None)
@given(
    stream=st.fixed_dictionaries(STREAMS),
    options=st.fixed_dictionaries({**CACHES, "boost_slots": st.integers(0, 3)}),
)
def test_boostadapter_equals_the_plain_loops(stream: dict[str, int], options: dict[str, Any]) -> None:
    task, features = gentle_stream(**stream)
    assert_equal_streams(make_method("boostadapter", **options), run_boostadapter, task, features, **options)


@settings(max_examples=30, deadline=None)
@given(stream=st.fixed_dictionaries(STREAMS), memory_slots=st.integers(0, 5), order=ORDERS)
def test_dmn_equals_the_plain_loops(stream: dict[str, int], memory_slots: int, order: str) -> None:
    task, features = gentle_stream(**stream)
    options = {"memory_slots": memory_slots, "order": order}
    assert_equal_streams(make_method("dmn", **options), run_dmn, task, features, **options)


@settings(max_examples=30, deadline=None)
@given(stream=st.fixed_dictionaries(STREAMS), view_fraction=st.sampled_from([0.1, 0.3, 1.0]))
def test_zero_vote_equals_the_plain_loops(stream: dict[str, int], view_fraction: float) -> None:
    task, features = gentle_stream(**stream)
    method = make_method("zero_vote", view_fraction=view_fraction)
    assert_equal_streams(method, run_zero_vote, task, features, view_fraction=view_fraction)


def test_a_tied_vote_goes_to_the_most_confident_view() -> None:
    task = Task(["a", "b", "c"], np.eye(3), 10.0)
    views = np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.95, 0.1], [1.0, 0.2, 0.0]])
    method = make_method("zero_vote", view_fraction=1.0)
    assert method.start(task).step(views).label == 1
