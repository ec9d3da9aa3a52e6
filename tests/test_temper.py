"""The text's scale that a stream finds: how sure the text should be of few classes and of many."""

import numpy as np
import pytest

from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab import MCP, Keel, Task, ZeroShot
from trimtab.engine.temper import next_log_scale


@pytest.mark.parametrize(("classes", "wanted"), [(1, 1.0), (2, 2 / 3), (4, 0.5), (10, 0.4), (1000, 0.4)])
def test_a_text_of_few_classes_should_be_sure_beyond_chance(classes, wanted):
    assert next_log_scale(1.0, 100.0, wanted, classes) == pytest.approx(1.0)
    assert next_log_scale(1.0, 100.0, wanted - 0.1, classes) > 1.0


@pytest.mark.parametrize("method", [MCP, Keel])
def test_a_long_stream_of_two_classes_keeps_what_it_has_learned(method):
    """Of two classes one has half by chance: a text that had to be less sure than that fell silent in the end."""
    features, labels, text = make_features(2, 32, 1, 15_000, seed=3, shape=Shape(agreement=0.5))
    stream = method().start(Task(["ok", "broken"], text, LOGIT_SCALE))
    right = stream.run(features, keep_parts=False).labels == labels
    zero_shot = (features[:, 0] @ text.T).argmax(axis=1) == labels
    assert right[-3000:].mean() > zero_shot[-3000:].mean() + 0.03


@pytest.mark.parametrize("method", [MCP, Keel])
def test_the_first_answer_is_about_as_sure_as_the_text_at_its_stated_scale(method):
    """The first image's spread says nothing: two cosines always lie one deviation from their mean."""
    features, _, text = make_features(2, 32, 1, 20, seed=3)
    task = Task(["ok", "broken"], text, LOGIT_SCALE)
    for image in features:
        stream = method().start(task)
        zero_shot = ZeroShot().start(task).step(image).probabilities.max()
        asked, taken_in = stream.predict(image), stream.step(image)
        assert 0.5 <= taken_in.probabilities.max() <= zero_shot + 0.01
        np.testing.assert_array_equal(asked.probabilities, taken_in.probabilities)
