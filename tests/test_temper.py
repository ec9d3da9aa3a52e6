"""The text's scale that a stream finds: how sure the text should be of few classes and of many."""

import pytest

from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab import MCP, Keel, Task
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
