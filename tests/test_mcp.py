"""MCP against the authors' own program (golden streams) and against the plain-loop oracle."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentle import gentle_stream
from oracle.mcp import run_mcp
from trimtab import MCP, Task, TrimtabError
from trimtab.checks import random_stream
from trimtab.methods.three_cache_method import PAPER_FORM

GOLDEN = Path(__file__).parent / "golden"
PARAMETERS = [name for name in MCP.__dataclass_fields__ if name in np.load(GOLDEN / "mcp_a.npz")]


def golden_run(name: str, **changes):
    data = np.load(GOLDEN / f"{name}.npz")
    text = data["text_prototypes"]
    task = Task([str(c) for c in range(len(text))], text, float(data["logit_scale"]))
    parameters = {parameter: data[parameter].item() for parameter in PARAMETERS}
    method = MCP(**PAPER_FORM, **parameters, **changes)
    return data, method.start(task).run(data["views"])


@pytest.mark.parametrize("part", ["text", "prototype", "retrieval"])
@pytest.mark.parametrize("name", ["mcp_a", "mcp_b"])
def test_equals_the_released_program_without_promotion(name, part):
    data, result = golden_run(name, promotion=False)
    np.testing.assert_allclose(result.parts[part], data[f"{part}_nopromotion"], atol=2e-5, rtol=0)


@pytest.mark.parametrize("part", ["text", "prototype", "retrieval"])
@pytest.mark.parametrize("name", ["mcp_a", "mcp_b"])
def test_agrees_with_the_released_program_with_promotion(name, part):
    data, result = golden_run(name, promotion=True)
    agreement = (result.parts[part].argmax(axis=1) == data[part].argmax(axis=1)).mean()
    assert agreement == 1


@settings(max_examples=60, deadline=None)
@given(
    classes=st.integers(2, 9),
    dim=st.integers(2, 12),
    views=st.sampled_from([1, 2, 11, 20]),
    images=st.integers(1, 60),
    seed=st.integers(0, 10_000),
    block=st.sampled_from([1, 5, 64]),
    entropy_slots=st.integers(0, 4),
    align_slots=st.integers(0, 4),
    negative_slots=st.integers(0, 3),
    promotion=st.booleans(),
    order=st.sampled_from(["write_first", "predict_first"]),
    query=st.sampled_from(["plain", "confident_mean"]),
    window=st.sampled_from([(0.2, 0.5), (0.02, 0.69), (0.05, 0.3)]),
    mask_low=st.sampled_from([0.0, 0.03, 0.3]),
    center_weight=st.sampled_from([0.0, 0.5, 0.8, 1.0]),
)
def test_equals_the_plain_loops(classes, dim, views, images, seed, block, window, **choices):
    task, features = gentle_stream(classes=classes, dim=dim, views=views, images=images, seed=seed)
    paper = {
        "positive_alpha": 4.0,
        "positive_beta": 5.0,
        "negative_alpha": 0.5,
        "negative_beta": 1.0,
        "entropy_low": window[0],
        "entropy_high": window[1],
        "mask_high": 1.0,
        "retrieval_beta": 5.5,
        "view_fraction": 0.1,
        **choices,
    }
    expected = run_mcp(features, task.text_prototypes, task.logit_scale, **paper)
    result = MCP(**PAPER_FORM, **paper).start(task).run(features, block=block)
    for part, values in expected.items():
        np.testing.assert_allclose(result.parts[part], values, atol=2e-4, rtol=0, err_msg=part)


def test_a_class_with_nothing_cached_reads_out_its_text():
    task, features = random_stream(classes=6, dim=12, views=1, images=1, seed=0)
    parts = MCP(entropy_slots=0, align_slots=0, negative_slots=0).start(task).run(features).parts
    np.testing.assert_allclose(parts["retrieval"], parts["text"], atol=1e-5)
    np.testing.assert_allclose(parts["prototype"], parts["text"], atol=1e-5)


def test_an_image_can_see_itself_only_when_it_is_written_first():
    task, features = random_stream(classes=6, dim=12, views=1, images=1, seed=1)
    seen = MCP(order="write_first", prototype_term="affinity").start(task).run(features).parts["prototype"]
    unseen = MCP(order="predict_first", prototype_term="affinity").start(task).run(features).parts
    assert np.abs(seen - unseen["text"]).max() > 1e-3
    np.testing.assert_allclose(unseen["prototype"], unseen["text"], atol=1e-6)


def test_the_papers_form_is_the_golden_one():
    data = np.load(GOLDEN / "mcp_a.npz")
    text = data["text_prototypes"]
    task = Task([str(c) for c in range(len(text))], text, float(data["logit_scale"]))
    method = replace(MCP.paper(), **{name: data[name].item() for name in PARAMETERS}, promotion=False)
    assert (method.prototype_term, method.fusion) == ("affinity", (1.0, 1.0, 1.0))
    found = method.start(task).run(data["views"]).parts["prototype"]
    np.testing.assert_allclose(found, data["prototype_nopromotion"], atol=2e-5, rtol=0)


def test_the_papers_form_takes_the_authors_values_for_a_set():
    method = MCP.paper("imagenet-a")
    assert (method.positive_alpha, method.positive_beta, method.query) == (4.0, 3.0, "confident_mean")
    assert MCP.paper() != MCP()
    for unknown in ("nosuch", ""):
        with pytest.raises(TrimtabError, match=f"There are no released values for '{unknown}'; there are for"):
            MCP.paper(unknown)


@pytest.mark.parametrize("parameter", ["positive_alpha", "positive_beta"])
def test_a_value_without_effect_is_refused(parameter):
    with pytest.raises(TrimtabError, match=f"{parameter} has no effect on the prototype term 'matched'"):
        MCP(**{parameter: 3.0})
