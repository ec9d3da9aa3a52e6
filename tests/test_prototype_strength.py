"""The prototypes' strength found from the stream: against a plain twin, and what it must be blind to."""

import numpy as np
import pytest

from trimtab import MCP, Task
from trimtab.engine.block import Block
from trimtab.fusion.strength import PrototypeStrength


def plain_support(probabilities, logits, cosines, holds):
    """The rule again with NumPy, for the last image of a stream; everything (N, C)."""
    classes = logits.shape[1]
    total = weight = 0.0
    text_spreads, cosine_spreads, agreement = [1.0], [0.01], np.zeros(2)
    for n, (p, z, x, has) in enumerate(zip(probabilities, logits, cosines, holds, strict=True)):
        total += ((1 - p) * x)[has].sum()
        weight += (1 - p)[has].sum()
        usual = total / max(weight, 1e-9)
        deviation = np.where(has, x - usual, 0)
        text_spreads.append(p @ (z - p @ z) ** 2)
        cosine_spreads.append(p @ (deviation - p @ deviation) ** 2)
        highest = deviation >= deviation.max() - 1e-4
        agreement += (np.array([p[highest].mean(), p @ p]) - agreement) * max(1 / (n + 1), 0.03)
    trust = np.clip(2 * (agreement[0] - 1 / classes) / (agreement[1] - 1 / classes) - 1, 0, 1)
    slope = 2 * (n + 1) / (n + 21) * trust * np.sqrt(np.mean(text_spreads) / np.mean(cosine_spreads))
    return slope * deviation


def a_stream(images=60, classes=7, dim=16, logit_scale=8.0, seed=0):
    """A block of images, and cosines with prototypes that come one class after the other."""
    random = np.random.default_rng(seed)
    text = random.normal(size=(classes, dim))
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    labels = random.integers(classes, size=images)
    features = text[labels] + 1.2 * random.normal(size=(images, dim)) / np.sqrt(dim)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    block = Block(Task([str(c) for c in range(classes)], text, logit_scale), features[:, None].astype(np.float32), 0)
    cosines = (0.5 + 0.3 * features @ text.T + 0.05 * random.normal(size=(images, classes))).astype(np.float32)
    holds = np.arange(classes) <= np.arange(images)[:, None] // 3
    return block, np.where(holds, cosines, np.float32(0)), holds


def learned(block, cosines, holds):
    strength = PrototypeStrength()
    for image, row, has in zip(block, cosines, holds, strict=True):
        strength.learn(image, row, has)
    return strength


def test_equals_the_plain_rule():
    block, cosines, holds = a_stream()
    found = learned(block, cosines, holds).support(cosines[-1], holds[-1])
    expected = plain_support(block.probabilities, block.logits, cosines, holds)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(("factor", "shift"), [(0.5, 0.0), (1.0, 0.2), (2.0, -0.5)])
def test_does_not_care_how_wide_the_cone_of_features_is(factor, shift):
    block, cosines, holds = a_stream(images=300)
    other = np.where(holds, factor * cosines + np.float32(shift), np.float32(0))
    expected = learned(block, cosines, holds).support(cosines[-1], holds[-1])
    found = learned(block, other, holds).support(other[-1], holds[-1])
    np.testing.assert_allclose(found, expected, rtol=0.06, atol=0.02)


def test_prototypes_that_contradict_the_text_fall_silent():
    block, cosines, holds = a_stream(images=300)
    wrong = np.roll(cosines, 1, axis=1)
    agreeing = np.abs(learned(block, cosines, holds).support(cosines[-1], holds[-1])).max()
    contradicting = np.abs(learned(block, wrong, holds).support(wrong[-1], holds[-1])).max()
    assert contradicting < 0.2 * agreeing


def test_a_number_is_the_papers_affinity():
    block, _, _ = a_stream(images=30)
    features = block.views
    numbered = MCP(prototype_term="affinity").start(block.task).run(features).parts["prototype"]
    found = MCP().start(block.task).run(features).parts["prototype"]
    assert np.abs(numbered - found).max() > 0.01
