"""Relations between classes: against the plain inverse, what they must not change, and what they are worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab import Keel, Task
from trimtab.engine import relations
from trimtab.engine.relations import Relations
from trimtab.engine.stretches import Stretches
from trimtab.engine.whitening import NO_ANSWER, fit_classes
from trimtab.methods.keel import BY_CHANCE, FOR_MEMORY, FOR_TEXT, SOFTLY, Reputation


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def plain(text: np.ndarray, counts: np.ndarray, kappa: float, rank: int) -> np.ndarray:
    """A, by inverses of whole matrices; of the names' products the largest are kept, the rest is each class's own."""
    names = text.astype(np.float64) - text.mean(axis=0)
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    lengths, axes = np.linalg.eigh(names @ names.T)
    cosines = (axes[:, -rank:] * lengths[-rank:]) @ axes[:, -rank:].T
    np.fill_diagonal(cosines, 1)
    share = 0.95 * len(text) / (len(text) + 10)
    related = (1 - share) * np.eye(len(text)) + share * cosines
    return np.linalg.inv(np.diag(counts) + kappa * np.linalg.inv(related))


@settings(deadline=None, max_examples=40)
@given(
    classes=st.integers(2, 40),
    dim=st.sampled_from([3, 24, 64]),
    rank=st.sampled_from([2, 256]),
    kappa=st.floats(1, 1e4),
    seed=st.integers(0, 1000),
)
def test_what_is_drawn_equals_the_plain_inverse(classes, dim, rank, kappa, seed):
    rng = np.random.default_rng(seed)
    text = unit(rng.normal(size=(classes, dim)) + 1)
    counts = (rng.exponential(20, classes) * (rng.random(classes) < 0.8)).astype(np.float32)  # some never came
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "RANK", rank)
        drawn = Relations(text).draw(counts, kappa)
    expected = plain(text, counts, kappa, min(rank, classes, dim))
    found = drawn(np.eye(classes, dtype=np.float32))
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())


def test_a_class_that_never_came_is_expected_to_look_like_one_with_a_name_like_its_own():
    rng = np.random.default_rng(0)
    text = rng.normal(size=(12, 32))
    text[1] = text[0] + 0.2 * rng.normal(size=32)
    counts = np.full(12, 30, np.float32)
    counts[1] = 0
    sums = rng.normal(size=(12, 8)).astype(np.float32)
    sums[1] = 0
    means = Relations(unit(text)).draw(counts, 10.0)(sums)
    toward = unit(means) @ unit(means[1])
    assert toward[0] > 0.8
    assert np.abs(np.delete(toward, [0, 1])).max() < toward[0] - 0.05


def test_with_many_images_a_class_is_what_its_images_are():
    rng = np.random.default_rng(1)
    sums = rng.normal(size=(20, 8)).astype(np.float32) * 1e6
    means = Relations(unit(rng.normal(size=(20, 32)))).draw(np.full(20, 1e6, np.float32), 10.0)(sums)
    np.testing.assert_allclose(means, sums / 1e6, atol=1e-3)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_handful_of_classes_breaks_nothing(classes):
    text = unit(np.random.default_rng(2).normal(size=(classes, 16)))
    drawn = Relations(text).draw(np.ones(classes, np.float32), 5.0)
    assert np.isfinite(drawn(np.eye(classes, dtype=np.float32))).all()


def test_names_tell_many_classes_of_few_images_apart():
    """Three images per class, whose means follow their names; with the same relations between other classes less."""
    rng, classes, dim = np.random.default_rng(3), 80, 64
    text = rng.normal(size=(classes, dim)) @ rng.normal(size=(dim, dim)) / 8 + 2
    means = (text - text.mean(axis=0)) @ rng.normal(size=(dim, dim)) / 8
    labels = np.tile(np.arange(classes), 6)
    images = unit(means[labels] + 1.5 * text[labels] + 6 * rng.normal(size=(len(labels), dim)))
    text, known, new = unit(text), slice(0, 240), slice(240, None)
    seen = Stretches(images[known].copy(), text).seen(240)

    def right(names: np.ndarray) -> float:
        found = fit_classes(seen, 1.5, np.full(240, NO_ANSWER), Relations(names))
        return float(((images[new] @ found.weights.T + found.offsets).argmax(axis=1) == labels[new]).mean())

    assert right(text) > 1.3 * right(text[rng.permutation(classes)])


def test_the_memory_speaks_softly_where_it_is_supported_beyond_chance():
    reputation = Reputation()
    reputation.figures[FOR_MEMORY], reputation.figures[FOR_TEXT] = 0.6, 0.8
    reputation.chance[BY_CHANCE] = 0.02
    assert reputation.witness() == pytest.approx(SOFTLY)
    reputation.chance[BY_CHANCE] = 0.4  # few classes, or images that come in runs
    assert reputation.witness() == 0
    reputation.figures[FOR_MEMORY] = 0.9
    assert reputation.witness() == 1


def test_support_by_chance_is_that_of_the_image_before():
    """In a run of one class, what was said of the image before says all that is said of this one."""
    rng = np.random.default_rng(4)
    text = unit(rng.normal(size=(6, 32)))
    labels = rng.integers(0, 6, 400)
    images = unit(text[labels] + 0.3 * rng.normal(size=(400, 32)))
    task = Task([str(c) for c in range(6)], text, 30.0)
    shuffled, sorted_ = (Keel().start(task) for _ in range(2))
    shuffled.run(images)
    sorted_.run(images[np.argsort(labels, kind="stable")])
    chance, in_runs = (stream.state.reputation.chance[BY_CHANCE] for stream in (shuffled, sorted_))
    assert chance < 0.35
    assert in_runs > chance + 0.3
