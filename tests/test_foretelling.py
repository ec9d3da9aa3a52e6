"""How well names foretell the next: runs tell whether what is held still helps, and nothing else does."""

import numpy as np
import pytest

from trimtab.fusion import AutoWeights
from trimtab.fusion.context import LONGEST
from trimtab.fusion.foretelling import ALL, CLEARNESS, IN_ALL, SPREAD, TEXT, Foretelling, held_counts, learn_names

PARTS = ("text", "prototype", "retrieval")


def named(by_text, by_all, classes=6):
    """What is known after these names."""
    found = Foretelling(classes)
    for names in zip(by_text, by_all, strict=True):
        learn_names(*found.arrays().values(), *map(int, names))
    return found


def noisy(labels, right, classes=6, seed=0):
    """Names of which a share is right and the others anything."""
    random = np.random.default_rng(seed)
    return np.where(random.random(len(labels)) < right, labels, random.integers(classes, size=len(labels)))


RUNS = np.repeat(np.random.default_rng(1).integers(6, size=30), 25)


def test_names_nearer_to_the_truth_show_runs_more_clearly():
    found = named(noisy(RUNS, 0.4), noisy(RUNS, 0.8, seed=1))
    assert found.figures[ALL] > 2 * found.figures[TEXT] > 0.1
    assert 1 - found.shares[TEXT, 0] > 0.3


def test_a_shuffled_stream_shows_none():
    labels = np.random.default_rng(2).permutation(RUNS)
    found = named(noisy(labels, 0.4), noisy(labels, 0.8, seed=1))
    assert np.abs(found.figures[CLEARNESS]).max() < 0.05
    assert (1 - found.shares[:, 0]).max() < 0.2


def test_one_name_for_everything_foretells_nothing():
    found = named(noisy(RUNS, 0.4), np.zeros(len(RUNS)))
    assert abs(found.figures[ALL]) < 0.02


def test_after_a_cut_names_before_it_foretell_nothing():
    found = named(RUNS, RUNS)
    before = found.figures[CLEARNESS].copy()
    found.cut()
    learn_names(*found.arrays().values(), 3, 3)
    np.testing.assert_array_equal(found.figures[CLEARNESS], before)
    learn_names(*found.arrays().values(), 3, 3)
    assert (found.figures[CLEARNESS] != before).all()


def listened_to(by_text, by_all, classes):
    """How far what is held counts after these names, in a stream without runs."""
    found = named(by_text, by_all, classes)
    none = np.array([1.0, 0.0, 0.0, 0.0])
    return held_counts(none, found.usual, np.tile(none, (2, 1)), found.figures, found.counts[IN_ALL])


def test_the_spread_of_names_is_their_entropy():
    names = noisy(RUNS, 0.4)
    found, shares = named(names, names), np.bincount(names, minlength=6) / len(names)
    entropy = np.log(len(names)) - found.figures[SPREAD] / len(names)
    assert entropy == pytest.approx(-(shares * np.log(shares)).sum())


def test_names_of_long_ago_count_half_and_whether_they_foretell_is_asked_anew():
    names = np.resize(RUNS, LONGEST)
    found = named(names, names)
    before, entropy = found.usual.copy(), np.log(LONGEST) - found.figures[SPREAD] / LONGEST
    assert (1 - found.shares[:, 0]).min() > 0.7
    learn_names(*found.arrays().values(), 3, 3)
    held = np.log(LONGEST / 2 + 1) - found.figures[SPREAD] / (LONGEST / 2 + 1)
    assert found.counts[IN_ALL] == LONGEST // 2 + 1
    assert found.usual[TEXT, 0] == pytest.approx(20 / 6 + (before[TEXT, 0] - 20 / 6) / 2)
    assert held == pytest.approx(entropy, abs=1e-3)
    assert (1 - found.shares[:, 0]).max() < 0.3


@pytest.mark.parametrize(
    ("shares", "classes", "least", "most"),
    [
        pytest.param([1.0], 1, 1.0, 1.0, id="the only class"),
        pytest.param([0.5, 0.5], 2, 1.0, 1.0, id="both of two"),
        pytest.param([0.97, 0.03], 2, 0.0, 0.05, id="one of two"),
        pytest.param([0.7, 0.2, 0.1], 10, 0.0, 0.1, id="one of ten, by three names"),
        pytest.param([0.3, 0.2, 0.2, 0.1, 0.1, 0.1], 10, 1.0, 1.0, id="six of ten"),
        pytest.param([0.1] * 10, 1000, 1.0, 1.0, id="ten of a thousand"),
    ],
)
def test_what_is_held_counts_as_far_as_several_classes_are_named(shares, classes, least, most):
    names = np.random.default_rng(0).permutation(np.repeat(range(len(shares)), (400 * np.array(shares)).astype(int)))
    assert least <= listened_to(names, names, classes) <= most


def test_what_is_held_counts_where_it_tells_apart_what_the_text_calls_by_one_name():
    several = np.random.default_rng(0).permutation(np.tile(range(8), 50))
    assert listened_to(np.zeros(400), np.zeros(400), 10) < 0.05
    assert listened_to(np.zeros(400), several, 10) == 1.0


def test_nothing_is_known_before_an_image_is_named():
    assert listened_to([], [], 10) == 1.0


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
