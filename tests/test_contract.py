"""Every method x every check of the public contract."""

import pytest

from trimtab.checks import CHECKS, predict_foretells_step, random_stream
from trimtab.methods import list_methods, make_method, method_class
from trimtab.methods.base import CacheMethod

VARIANTS = {
    "tda": [{"order": "predict_first"}, {"query": "plain"}, {"positive_slots": 0, "negative_slots": 0}],
    "dmn": [{"order": "predict_first"}, {"memory_slots": 0}, {"memory_slots": 2}],
    "boostadapter": [{"order": "predict_first"}, {"query": "confident_mean"}, {"boost_slots": 0, "negative_slots": 0}],
    "zero_vote": [{"view_fraction": 0.3}],
    "dpe": [{"order": "predict_first"}, {"query": "confident_mean"}, {"positive_slots": 0}, {"align_weight": 0.0}],
    "tpt": [{"steps": 3, "view_fraction": 0.3, "learning_rate": 0.05}],
    "ctpt": [{"two_step": True, "steps": 2}],
    "rtpt": [{"neighbors": 3, "temperature": 0.1, "view_fraction": 0.5}],
    "mcp_plus": [
        {"order": "predict_first"},
        {"one_sided": True, "temperature": 0.01},
        {"evolve_text": True, "learning_rate": 1e-3},
        {"evolve_text": True, "order": "predict_first", "query": "confident_mean"},
        {"entropy_slots": 0, "align_slots": 0, "negative_slots": 0},
    ],
    "mcp": [
        {"order": "predict_first"},
        {"promotion": False},
        {"query": "confident_mean"},
        {"entropy_slots": 0},
        {"align_slots": 0},
        {"negative_slots": 0},
        {"entropy_slots": 0, "align_slots": 0, "negative_slots": 0},
        {"entropy_slots": 2, "align_slots": 1, "negative_slots": 1, "mask_low": 0.0},
    ],
}


def variants() -> list:
    found = []
    for name in list_methods():
        if "pixels" in method_class(name).needs:  # which a random stream of features has not
            continue
        for changes in [{}, *VARIANTS.get(name, [])]:
            label = name + "".join(f"-{key}={value}" for key, value in changes.items())
            found.append(pytest.param(make_method(name, **changes), id=label))
    return found


@pytest.mark.parametrize("views", [1, 12])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", variants())
def test_contract(method, check, views):
    if method.name == "zero_shot":
        assert not isinstance(method, CacheMethod)
    task, features = random_stream(classes=7, dim=16, views=views, images=120, seed=3, needs=method.needs)
    check(method, task, features)


@pytest.mark.parametrize("method", variants())
def test_two_classes_and_one_dimension(method):
    task, features = random_stream(classes=2, dim=1, views=1, images=20, seed=5, needs=method.needs)
    assert method.start(task).run(features).probabilities.shape == (20, 2)


@pytest.mark.parametrize("name", ["tda", "dmn", "boostadapter", "mcp", "mcp_plus", "keel"])
def test_an_answer_of_many_classes_is_foretold_bit_for_bit(name):
    """Long rows are summed in vector instructions, which two compilations of one loop may order differently."""
    task, features = random_stream(classes=64, dim=128, views=1, images=90, seed=1)
    predict_foretells_step(make_method(name), task, features)
