"""How well names foretell the next: runs tell whether what is held still helps, and nothing else does."""

import numpy as np
import pytest

from trimtab.fusion import AutoWeights
from trimtab.fusion.foretelling import ALL, TEXT, Foretelling, learn_names

PARTS = ("text", "prototype", "retrieval")


def named(by_text, by_all, classes=6):
    """What is known after these names."""
    found = Foretelling(classes)
    for image, names in enumerate(zip(by_text, by_all, strict=True)):
        learn_names(*found.arrays().values(), *map(int, names), float(image))
    return found


def noisy(labels, right, classes=6, seed=0):
    """Names of which a share is right and the others anything."""
    random = np.random.default_rng(seed)
    return np.where(random.random(len(labels)) < right, labels, random.integers(classes, size=len(labels)))


RUNS = np.repeat(np.random.default_rng(1).integers(6, size=30), 25)


def test_names_nearer_to_the_truth_show_runs_more_clearly():
    found = named(noisy(RUNS, 0.4), noisy(RUNS, 0.8, seed=1))
    assert found.clearness[ALL] > 2 * found.clearness[TEXT] > 0.1
    assert 1 - found.shares[TEXT, 0] > 0.3


def test_a_shuffled_stream_shows_none():
    labels = np.random.default_rng(2).permutation(RUNS)
    found = named(noisy(labels, 0.4), noisy(labels, 0.8, seed=1))
    assert np.abs(found.clearness).max() < 0.05
    assert (1 - found.shares[:, 0]).max() < 0.2


def test_one_name_for_everything_foretells_nothing():
    found = named(noisy(RUNS, 0.4), np.zeros(len(RUNS)))
    assert abs(found.clearness[ALL]) < 0.02


def test_after_a_cut_names_before_it_foretell_nothing():
    found = named(RUNS, RUNS)
    before = found.clearness.copy()
    found.cut()
    learn_names(*found.arrays().values(), 3, 3, float(len(RUNS)))
    np.testing.assert_array_equal(found.clearness, before)
    learn_names(*found.arrays().values(), 3, 3, float(len(RUNS) + 1))
    assert (found.clearness != before).all()


def held_after(caches, text_right=0.5):
    """How far what is held counts after runs of which the caches say this."""
    text = noisy(RUNS, text_right)
    weights, sure = AutoWeights(PARTS, 6), np.float32(0.5)
    for said in zip(text, caches, caches, strict=True):
        rows = np.full((3, 6), (1 - sure) / 5, np.float32)
        rows[np.arange(3), said] = sure
        weights.step(dict(zip(PARTS, rows, strict=True)))
    return weights.report()["held"]


@pytest.mark.parametrize(
    ("caches", "least", "most"),
    [
        pytest.param(noisy(RUNS, 0.9, seed=3), 0.9, 1.0, id="that know better"),
        pytest.param(noisy(np.minimum(RUNS, 1), 0.7, seed=3), 0.0, 0.3, id="that call new classes by old names"),
        pytest.param(noisy(RUNS, 0.1, seed=3), 0.0, 0.3, id="that know nothing"),
    ],
)
def test_in_runs_caches_count_as_far_as_they_show_them(caches, least, most):
    assert least <= held_after(caches) <= most
