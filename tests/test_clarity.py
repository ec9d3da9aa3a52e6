"""Whether the text is as clear as it used to be: what caches change by."""

import numpy as np
import pytest

from trimtab import MCP
from trimtab.checks import random_stream
from trimtab.engine.clarity import Clarity, margin


def logits_of(sharp, images, seed):
    """Text logits whose best class stands out by `sharp` deviations or so."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(images, 10)).astype(np.float32)
    logits[np.arange(images), random.integers(10, size=images)] += sharp
    return logits


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_the_margin_has_no_scale(scale):
    row = np.float32(scale) * np.array([0.0, 1.0, 3.0], np.float32)
    assert margin(row) == pytest.approx(2 / np.std([0.0, 1.0, 3.0]), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 255, 256, 257, 3000])
def test_the_margin_of_many_classes(classes):
    for seed in range(20):
        row = np.random.default_rng(seed).normal(size=classes).astype(np.float32)
        if seed % 4 == 0:
            row[-1] = row.max()  # equals: nothing is before the second
        second, best = np.sort(row)[-2:]
        assert margin(row) == pytest.approx((best - second) / max(row.std(), 1e-6), rel=1e-4, abs=1e-6)


def test_a_spell_that_the_text_hardly_understands_is_noticed_and_its_end_too():
    clarity = Clarity()
    assert all(clarity.take_in(row) for row in logits_of(4.0, 1000, 0)), "nothing to compare with yet"
    assert not any([clarity.take_in(row) for row in logits_of(0.0, 3000, 1)][100:])
    assert all([clarity.take_in(row) for row in logits_of(4.0, 3000, 2)][-100:])


@pytest.mark.parametrize(("lifetime", "changes"), [(100, False), (0, True)])
def test_full_caches_are_closed_while_the_text_is_not_clear(lifetime, changes):
    task, features = random_stream(classes=3, dim=16, views=1, images=800, seed=0)
    stream = MCP(lifetime=lifetime, text_scale="given").start(task)
    stream.run(features[:400])
    caches = stream.state.caches
    held = caches.bank.sources[:, caches.bank.sections["entropy"]]
    before = held.copy()
    assert (before >= 0).all(), "the caches are full"
    caches.clarity.figures[:] = 40_000, 0.1, 50.0  # far less clear than usual
    surer = features[400:, 0] + 0.5 * task.text_prototypes[np.arange(400) % 3]
    stream.run(surer / np.linalg.norm(surer, axis=1, keepdims=True))
    assert np.array_equal(before, held) != changes
