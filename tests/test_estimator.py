"""AdaptiveClassifier: scikit-learn's manners over a stream."""

import subprocess
import sys

import numpy as np
import pytest

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import MCP, AdaptiveClassifier, Keel, TrimtabError
from trimtab.checks import random_stream

NAMES = tuple(COLORS)
TASK, FEATURES = random_stream(classes=5, dim=12, views=3, images=60, seed=0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def test_features_give_what_a_stream_gives():
    stream = Keel().start(TASK)
    model = AdaptiveClassifier(TASK).partial_fit(FEATURES[:20]).partial_fit(FEATURES[20:40], y=None)
    stream.run(FEATURES[:20])
    stream.run(FEATURES[20:40])
    expected = np.stack([stream.predict(views).probabilities for views in FEATURES[40:]])
    assert np.array_equal(model.predict_proba(FEATURES[40:]), expected)
    assert np.array_equal(model.predict_proba(FEATURES[40:]), expected), "predicting has learned"
    assert model.predict(FEATURES[40:]).tolist() == [TASK.class_names[c] for c in expected.argmax(axis=1)]
    assert model.classes_.tolist() == list(TASK.class_names)
    assert model.predict_proba(FEATURES[:0]).shape == (0, 5)


def test_images_in_lists_and_in_arrays():
    model = AdaptiveClassifier(encoder=ColorEncoder(), labels=NAMES, views=2)
    images = [colored(name, seed) for seed, name in enumerate(NAMES)]
    assert model.predict(images).tolist() == list(NAMES), "zero-shot needs no fit"
    assert model.partial_fit(np.stack(images)).stream_.seen == 4
    assert np.array_equal(model.predict_proba(images), model.predict_proba(np.stack(images)))


def test_parameters_can_be_read_changed_and_refused():
    model = AdaptiveClassifier(TASK, method="tda").partial_fit(FEATURES)
    assert model.get_params()["method"] == "tda"
    assert "stream_" not in vars(model.set_params(method="mcp")), "what TDA has learned is not MCP's"
    assert model.partial_fit(FEATURES).stream_.method == MCP()
    with pytest.raises(TrimtabError, match="no parameter 'methods'; it has task, encoder"):
        model.set_params(methods="mcp")


@pytest.mark.parametrize(
    ("given", "X", "words"),
    [
        ({}, FEATURES, "an encoder and labels for images, or a task for features"),
        ({"task": TASK, "labels": NAMES}, FEATURES, "but not both"),
        ({"task": "mine"}, FEATURES, "task must be a trimtab.Task, not 'mine'"),
        ({"task": TASK, "method": 3}, FEATURES, "method must be a method's name"),
        ({"task": TASK}, [colored("red", 1)], "a task alone cannot encode images"),
        ({"task": TASK}, FEATURES[0, 0], r"not \(12,\)"),
        ({"task": TASK}, "a.png", r"give \['a.png'\]"),
        ({"task": TASK}, None, "X must be an array of numbers"),
        ({"task": TASK}, [[1.0], [1.0, 2.0]], "X must be an array of numbers"),
        ({"encoder": ColorEncoder(), "labels": NAMES}, ["missing.png"], "missing.png cannot be read"),
    ],
)
@pytest.mark.parametrize("verb", ["partial_fit", "predict", "predict_proba"])
def test_what_is_wrong_is_said(given, X, words, verb):
    with pytest.raises(TrimtabError, match=words):
        getattr(AdaptiveClassifier(**given), verb)(X)


def test_scikit_learns_own_checks_that_apply():
    """Those of parameters and cloning. The others `fit` random numbers that have no texts: there is no `fit` here."""
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier
    from sklearn.utils import estimator_checks as checks

    for check in (
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_estimator_repr,
        checks.check_estimator_cloneable,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
    ):
        check("AdaptiveClassifier", AdaptiveClassifier(TASK))
    model = AdaptiveClassifier(TASK).partial_fit(FEATURES)
    twin = clone(model)
    assert "stream_" not in vars(twin)
    assert twin.task.fingerprint == model.task.fingerprint  # clones copy deeply
    assert {**twin.get_params(), "task": TASK} == model.get_params()
    assert is_classifier(model)


def test_it_works_without_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from trimtab import AdaptiveClassifier\n"
        "from trimtab.checks import random_stream\n"
        "task, features = random_stream(3, 8, 1, 9, 0)\n"
        "model = AdaptiveClassifier(task).partial_fit(features)\n"
        "print(model, len(model.predict(features)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("AdaptiveClassifier(task=")
    assert done.stdout.split()[-1] == "9"


def test_no_images_have_no_answers():
    model = AdaptiveClassifier(encoder=ColorEncoder(), labels=list(COLORS))
    none = np.zeros((0, 20, 20, 3), np.uint8)
    assert model.predict(none).shape == (0,)
    assert model.partial_fit(none).stream_.seen == 0
