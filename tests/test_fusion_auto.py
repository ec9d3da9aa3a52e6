"""Weights without labels: the rule against a plain twin, what it must be blind to, and what it must notice."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.context import Context
from trimtab import MCP, Task
from trimtab.checks import random_stream
from trimtab.errors import TrimtabError
from trimtab.fusion import AutoWeights

PARTS = ("text", "prototype", "retrieval")


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def a_stream(images=400, classes=8, seed=0, scales=(1.0, 1.5, 6.0), noise=(1.6, 1.3, 1.0)):
    """Labels, and logits (3, N, C) of three noisy experts on them that differ in how loudly they speak."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=images)
    truth = 2.0 * np.eye(classes)[labels]
    logits = [s * (truth + n * random.normal(size=truth.shape)) for s, n in zip(scales, noise, strict=True)]
    return labels, np.stack(logits)


def replay(logits, fusion=None, names=PARTS):
    """Every image's fused probabilities, and the fusion afterwards."""
    fusion = fusion or AutoWeights(names, logits.shape[2])
    fused = []
    for position in range(logits.shape[1]):
        parts = dict(zip(names, softmax(logits[:, position]).astype(np.float32), strict=True))
        fused.append(fusion.step(parts))
    return np.stack(fused), fusion


def gaussian_margin(classes):
    """By drawing, what the rule has by an integral."""
    drawn = np.sort(np.random.default_rng(0).normal(size=(200_000 // classes, classes)), axis=1)
    return (drawn[:, -1] - drawn[:, -2]).mean() / np.sqrt(1 - 1 / classes)


def ramp(value, low, high):
    return np.clip((value - low) / (high - low), 0, 1)


class PlainNames:
    """How well names foretell the next one: all names are kept, and everything is counted anew for each image."""

    def __init__(self, classes):
        self.classes, self.names = classes, []
        self.shares, self.clearness = np.array([0.9, *[0.1 / 3] * 3]), 0.0

    def learn(self, name):
        count = len(self.names)
        if count:
            usual = (self.names.count(name) + 20 / self.classes) / (count + 20)
            lately = [np.mean(np.array(self.names[-horizon:]) == name) for horizon in (2, 8, 32)]
            foretold = self.shares * [1, *(np.array(lately) / usual)]
            self.clearness += (np.log(foretold.sum()) - self.clearness) * max(1 / 300, 1 / (count + 20))
            moved = (foretold / foretold.sum() - self.shares) * max(0.01, 1 / (count + 20))
            self.shares = np.maximum(self.shares + moved, 0.002)
            self.shares /= self.shares.sum()
        self.names.append(name)


def plain_several(by_text, least=0.45):
    named = np.bincount(by_text.names, minlength=by_text.classes) if by_text.names else np.ones(by_text.classes)
    found, count = named[named > 0] / named.sum(), len(by_text.names)
    entropy = -(found * np.log(found)).sum() / np.log(min(by_text.classes, 10))
    return ramp((20 + count * entropy) / (20 + count), least, 0.65)


def plain_held(shares, by_text, by_all):
    in_runs = ramp(max(1 - shares[0], 1 - by_text.shares[0]), 0.2, 0.4)
    clearer = (max(by_all.clearness, 0) + 0.1) / (max(by_text.clearness, 0) + 0.1)
    return (1 - in_runs * (1 - ramp(clearer, 1, 1.3))) * max(plain_several(by_text), plain_several(by_all, 0.55))


def plain_replay(logits, names=PARTS):
    """The rule again, in float64 and with nothing but NumPy."""
    parts, images, classes = logits.shape
    sums, weight = np.zeros((parts, classes)), np.zeros(classes)
    spreads, agreements, fused = [np.ones(parts)], np.zeros((parts - 1, 2)), []
    factor, alike, margin, confidence = 0.0, 0.5, 1.0, 0.0  # the text's sharpness
    usual_margin = gaussian_margin(classes)
    context = Context(classes)
    by_text, by_all = PlainNames(classes), PlainNames(classes)
    habits = np.array([{"text": 0.0, "prototype": 0.25, "dynamic": 0.5}.get(name, 1.0) for name in names])[:, None]
    for n in range(images):
        probabilities = softmax(logits[:, n])
        logs = np.log(probabilities)
        logs -= logs.mean(axis=1, keepdims=True)
        usual = sums.sum(axis=1, keepdims=True) / max(weight.sum(), 1e-9)
        unbiased = logs - habits * (sums + 20 * usual) / (weight + 20)
        beyond = agreements - 1 / classes
        trusts = np.clip(2 * beyond[:, 0] / np.maximum(beyond[:, 1], 1e-6) - 1, 0, 1)
        held = plain_held(context.shares, by_text, by_all)
        share, fully = (np.array([0.5, *(trusts * n / (n + 20) * counted)]) for counted in (held, 1))
        spread = np.mean(spreads, axis=0)
        product, in_full = ((s / s.sum() * np.sqrt(spread[0] / spread)) @ unbiased for s in (share, fully))
        result, of_all = (softmax(each + (np.exp(factor) - 1) * logs[0]) for each in (product, in_full))
        several = plain_several(by_text)
        fused.append(softmax(np.log(result) + np.log(context.expected(several)) / 1.5))
        context.learn(softmax(1.5 * np.exp(factor) * logs[0]), several)
        by_text.learn(logs[0].argmax())
        by_all.learn(of_all.argmax())
        mean = unbiased @ result
        spreads.append(((unbiased - mean[:, None]) ** 2) @ result)
        sums += (1 - result) * logs
        weight += 1 - result
        recent = max(1 / (n + 1), 0.03)
        for before in range(parts - 1):
            believed = probabilities[before]
            seen = np.array([believed[unbiased[before + 1].argmax()], (believed**2).sum()])
            agreements[before] += (seen - agreements[before]) * recent
        window = 1 / (min(n, 200) + 20)
        second, best = np.sort(logs[0])[-2:]
        alike += (np.mean(logs[1:].argmax(axis=1) == logs[0].argmax()) - alike) * window
        margin += ((best - second) / logs[0].std() / usual_margin - margin) * window
        confidence += (softmax(logs[0]).max() - confidence) * window
        strong = ramp(margin, 1.45, 1.75) * ramp(alike, 0.75, 0.85)
        wanted = confidence + strong * (0.85 - confidence)
        factor = np.clip(factor + 3 * (wanted - softmax(np.exp(factor) * logs[0]).max()) * window, 0, 2.5)
    return np.stack(fused)


@pytest.mark.parametrize("classes", [2, 8, 60])
def test_equals_the_plain_rule(classes):
    _, logits = a_stream(images=150, classes=classes)
    np.testing.assert_allclose(replay(logits)[0], plain_replay(logits), atol=2e-4)


@pytest.mark.parametrize(
    ("noise", "held"), [((1.2, 0.8, 0.6), 1.0), ((0.7, 1.0, 1.2), 0.52), ((0.5, 0.9, 1.5), 0.0)], ids=str
)
def test_equals_the_plain_rule_where_images_come_in_runs(noise, held):
    """With parts that show runs more clearly than the text, a little more clearly, and less clearly."""
    labels, logits = a_stream(images=400, noise=noise)
    order = np.argsort(labels, kind="stable")
    together, fusion = replay(logits[:, order])
    np.testing.assert_allclose(together, plain_replay(logits[:, order]), atol=2e-4)
    assert fusion.report()["held"] == pytest.approx(held, abs=0.05)


@pytest.mark.parametrize("names", [("text", "dynamic"), ("text", "prototype", "retrieval", "more")])
def test_any_number_of_parts_is_weighed_by_the_same_rule(names):
    _, logits = a_stream(
        images=150, scales=(1.0, 1.5, 6.0, 2.0)[: len(names)], noise=(1.6, 1.3, 1.0, 1.2)[: len(names)]
    )
    np.testing.assert_allclose(replay(logits, names=names)[0], plain_replay(logits, names), atol=2e-4)


def test_a_strong_text_speaks_louder_and_a_weak_one_does_not():
    """Clear margins and parts that agree with it; at the same mean confidence."""
    random = np.random.default_rng(0)
    labels = random.integers(10, size=400)
    clear = 4.0 * np.eye(10)[labels] + 0.3 * random.normal(size=(400, 10))
    factors = []
    for text in (clear, random.normal(size=(400, 10))):
        logits = np.stack([0.3 * text, clear, clear])
        factors.append(replay(logits)[1].sharpness.factor)
    assert factors[0] > 1.5
    assert factors[1] == pytest.approx(1, abs=0.05)


def test_the_first_image_gets_the_texts_prediction():
    _, logits = a_stream(images=1)
    np.testing.assert_allclose(replay(logits)[0][0], softmax(logits[0, 0]), atol=1e-5)


def test_three_experts_are_better_than_each():
    labels, logits = a_stream(images=1500, noise=(1.0, 1.0, 1.0))
    right = (replay(logits)[0].argmax(axis=1) == labels).mean()
    assert right > max((part.argmax(axis=1) == labels).mean() for part in logits) + 0.15


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_does_not_care_how_loudly_retrieval_speaks(factor):
    _, logits = a_stream()
    louder = logits.copy()
    louder[2] *= factor
    same = replay(logits)[0].argmax(axis=1) == replay(louder)[0].argmax(axis=1)
    assert same[100:].mean() > 0.93


def test_a_class_that_retrieval_always_names_is_discounted():
    labels, logits = a_stream(images=1000)
    biased = logits.copy()
    biased[2, :, 3] += 3 * biased[2].std()
    assert (biased[2].argmax(axis=1) == 3).mean() > 0.8
    right = (replay(logits)[0].argmax(axis=1) == labels)[200:].mean()
    assert (replay(biased)[0].argmax(axis=1) == labels)[200:].mean() > right - 0.03


def test_retrieval_that_loses_the_stream_is_no_longer_trusted():
    labels, logits = a_stream(images=600, noise=(0.6, 0.6, 0.6))
    logits[2, 300:] = np.roll(logits[2, 300:], 1, axis=1)  # from now on it always names the next class
    _, fusion = replay(logits[:, :300])
    assert fusion.report()["trust"] > 0.8
    after, _ = replay(logits[:, 300:], fusion)
    assert fusion.report()["trust"] < 0.3
    assert (after.argmax(axis=1) == labels[300:])[60:].mean() > 0.9


@settings(max_examples=50, deadline=None)
@given(classes=st.integers(2, 6), images=st.integers(1, 30), seed=st.integers(0, 1000), sharp=st.sampled_from([1, 1e4]))
def test_the_result_is_a_distribution_whatever_the_parts(classes, images, seed, sharp):
    logits = sharp * np.random.default_rng(seed).normal(size=(3, images, classes))
    fused, fusion = replay(logits)
    assert np.isfinite(fused).all()
    np.testing.assert_allclose(fused.sum(axis=1), 1, atol=1e-5)
    assert all(np.isfinite(value) for value in fusion.report().values())


def test_combining_writes_nothing_and_a_step_gives_the_same():
    _, logits = a_stream(images=40)
    _, fusion = replay(logits)
    parts = dict(zip(PARTS, softmax(logits[:, 0]).astype(np.float32), strict=True))
    others = dict(zip(PARTS, softmax(logits[:, 1]).astype(np.float32), strict=True))
    before = {name: array.copy() for name, array in fusion.arrays().items()}
    combined = fusion.combine(parts)
    fusion.combine(others)
    assert all(np.array_equal(before[name], array) for name, array in fusion.arrays().items())
    in_the_stream = fusion.combine(parts, comes_next=True)
    assert not np.array_equal(in_the_stream, combined), "what was just there must count for the next image"
    after_a_cut = copy.deepcopy(fusion)
    after_a_cut.cut()
    np.testing.assert_array_equal(after_a_cut.step(parts), combined)
    np.testing.assert_array_equal(fusion.step(parts), in_the_stream)
    assert not np.array_equal(before["habit"], fusion.arrays()["habit"]), "a step must learn"


def test_a_stream_reports_its_weights():
    task, features = random_stream(classes=5, dim=16, views=1, images=80, seed=0)
    stream = MCP().start(task)
    assert set(stream.fusion_report()) == {*PARTS, "trust", "context", "held", "level"}
    assert stream.fusion_report()["retrieval"] == 0
    stream.run(features)
    assert stream.fusion_report()["prototype"] > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fusion": "best"}, "fusion must be 'auto', 'auto-orderless' or one weight for each part"),
        ({"fusion": (1.0, 1.0)}, "2 weights but the prediction has 3 parts"),
        ({"fusion": (1.0, -1.0, 1.0)}, "at least 0"),
        ({"fusion": (1.0, "2", 1.0)}, "one weight for each part"),
        ({"prototype_term": "strong"}, "prototype_term must be 'matched' or 'affinity'"),
        ({"prototype_term": "affinity", "positive_alpha": -1.0}, "positive_alpha must be a number of at least 0"),
    ],
)
def test_a_wrong_choice_is_refused_with_a_sentence(parameters, message):
    with pytest.raises(TrimtabError, match=message):
        MCP(**parameters)


def test_parts_without_a_text_first_need_weights():
    with pytest.raises(TrimtabError, match="give weights"):
        AutoWeights(("cache", "text"), 3)


def clip_like(images=1500, classes=60):
    from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features

    features, labels, text = make_features(classes, 256, 1, images, seed=5, shape=Shape(agreement=0.4))
    return Task([str(c) for c in range(classes)], text, LOGIT_SCALE), features, labels


def test_auto_is_better_than_equal_weights_on_a_clip_like_stream():
    task, features, labels = clip_like()
    auto = (MCP().start(task).run(features).labels == labels).mean()
    published = MCP.paper().start(task).run(features)
    assert auto > (published.labels == labels).mean() + 0.02
    assert auto > (published.parts["text"].argmax(axis=1) == labels).mean() + 0.05


@pytest.mark.parametrize("sure", [0.35, 0.9])
def test_answers_become_as_sure_as_they_should_be_and_stay_the_same(sure):
    _, logits = a_stream(images=1500)
    parts = dict(zip(PARTS, softmax(logits).astype(np.float32), strict=True))
    silent, told = AutoWeights(PARTS, 8), AutoWeights(PARTS, 8)
    as_it_is, answers = silent.walk(parts), told.walk(parts, np.full(1500, sure))
    np.testing.assert_array_equal(as_it_is.argmax(axis=1), answers.argmax(axis=1))
    assert answers[500:].max(axis=1).mean() == pytest.approx(sure, abs=0.02)
    for name, learned in silent.arrays().items():  # how loudly it answers changes nothing that it learns
        assert name == "loudness" or np.array_equal(learned, told.arrays()[name]), name


def test_nobody_knows_how_sure_to_be_so_the_product_stays_as_it_is():
    _, logits = a_stream(images=200)
    fused, fusion = replay(logits)
    assert fusion.loudness[0] == 0
    parts = dict(zip(PARTS, softmax(logits).astype(np.float32), strict=True))
    np.testing.assert_allclose(AutoWeights(PARTS, 8).walk(parts), fused, atol=1e-6)
