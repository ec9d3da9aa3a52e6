"""What users give is checked once, with one sentence that names it."""

import numpy as np
import pytest

import trimtab
from trimtab import MCP, Task, TrimtabError, make_method

EYE = np.eye(3, 5, dtype=np.float32)


@pytest.mark.parametrize(
    ("names", "text", "message"),
    [
        (["a", "b"], EYE, "2 class names but 3 text prototypes"),
        (["a", "b", "a"], EYE, "'a' more than once"),
        (["a"], EYE[:1], "at least two classes"),
        (["a", "b", "c"], 2 * EYE, "'a' \\(row 0\\) has length 2"),
        (["a", "b", "c"], np.full((3, 5), np.nan), "NaN or infinity"),
        (["a", "b", "c"], EYE[0], "shape"),
    ],
)
def test_a_wrong_task_is_refused(names, text, message):
    with pytest.raises(TrimtabError, match=message):
        Task(names, text)


@pytest.mark.parametrize("scale", [0, -1, float("nan")])
def test_a_wrong_logit_scale_is_refused(scale):
    with pytest.raises(TrimtabError, match="logit_scale"):
        Task(["a", "b", "c"], EYE, scale)


def test_text_prototypes_are_copied_made_unit_and_locked():
    text = (EYE * 1.004).astype(np.float16)
    task = Task(["a", "b", "c"], text)
    text[0] = 0
    np.testing.assert_allclose(np.linalg.norm(task.text_prototypes, axis=1), 1, atol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        task.text_prototypes[0, 0] = 5


def test_the_fingerprint_tells_tasks_apart():
    same = Task(["a", "b", "c"], EYE).fingerprint
    assert Task(["a", "b", "c"], EYE).fingerprint == same
    assert Task(["a", "b", "d"], EYE).fingerprint != same
    assert Task(["a", "b", "c"], EYE[::-1]).fingerprint != same
    assert Task(["a", "b", "c"], EYE, 50).fingerprint != same


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"entropy_slots": -1}, "entropy_slots must be a whole number of at least 0, not -1; the default is 10"),
        ({"align_slots": 2.5}, "align_slots must be a whole number"),
        ({"center_weight": 1.2}, "center_weight must be a number from 0 to 1"),
        ({"positive_beta": float("nan")}, "positive_beta"),
        ({"order": "random"}, "order must be 'write_first' or 'predict_first'"),
        ({"promotion": 1}, "promotion must be True or False"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_range(parameters, message):
    with pytest.raises(TrimtabError, match=message):
        MCP(**parameters)


def test_unknown_methods_and_parameters_are_named():
    with pytest.raises(TrimtabError, match="no method 'mpc'; the methods are zero_shot"):
        make_method("mpc")
    with pytest.raises(TrimtabError, match="mcp has no parameter 'slots'"):
        make_method("mcp", slots=3)


def test_public_names_are_there():
    for name in trimtab.__all__:
        assert getattr(trimtab, name) is not None
    with pytest.raises(AttributeError, match="No trimtab attribute nonsense"):
        trimtab.nonsense  # noqa: B018
