"""Metrics against scikit-learn's, by hand, and as properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, recall_score, top_k_accuracy_score

from trimtab.errors import TrimtabError
from trimtab.study import metrics


def predictions(images=500, classes=7, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=images)
    logits = random.normal(size=(images, classes)) * 2
    logits[np.arange(images), labels] += 1
    odds = np.exp(logits)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32), labels


def test_scores_agree_with_scikit_learn():
    probabilities, labels = predictions()
    found = metrics.score(probabilities, labels)
    normal = probabilities.astype(np.float64) / probabilities.astype(np.float64).sum(axis=1, keepdims=True)
    assert found.accuracy == pytest.approx((probabilities.argmax(1) == labels).mean())
    assert found.top5 == pytest.approx(top_k_accuracy_score(labels, normal, k=5, labels=range(7)))
    assert found.nll == pytest.approx(log_loss(labels, normal, labels=range(7)), rel=1e-5)
    assert found.brier == pytest.approx(((normal - np.eye(7)[labels]) ** 2).sum(axis=1).mean(), rel=1e-5)
    np.testing.assert_allclose(found.recall, recall_score(labels, probabilities.argmax(1), average=None))


def test_ties_do_not_make_everyone_a_winner():
    """A vote gives all its probability to one class; the others are equal, and only four of them can follow."""
    probabilities = np.zeros((8, 8), np.float32)
    probabilities[:, 7] = 1
    found = metrics.score(probabilities, np.arange(8))
    assert found.accuracy == 1 / 8
    assert found.top5 == 5 / 8


def test_calibration_error_by_hand():
    # Two images in (0.75, 0.8], one right; two in (0.95, 1], both right. |0.78 - 0.5| / 2 + |0.98 - 1| / 2.
    probabilities = np.array([[0.78, 0.22], [0.78, 0.22], [0.98, 0.02], [0.98, 0.02]], np.float32)
    found = metrics.score(probabilities, np.array([0, 1, 0, 0]))
    assert found.ece == pytest.approx(0.15, abs=1e-6)
    assert found.reliability.count.sum() == 4
    assert found.reliability.count[15] == found.reliability.count[19] == 2


def test_a_bin_holds_its_upper_edge():
    found = metrics.reliability_of(np.array([0.05, 0.1, 1.0]), np.array([True, False, True]))
    assert found.count[0] == 1
    assert found.count[1] == 1
    assert found.count[19] == 1


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(0, 5))
def test_pieces_do_not_change_scores(piece, seed):
    probabilities, labels = predictions(images=120, seed=seed)
    whole = metrics.score(probabilities, labels)
    before, metrics.PIECE = metrics.PIECE, piece
    try:
        pieced = metrics.score(probabilities, labels)
    finally:
        metrics.PIECE = before
    assert pieced.nll == pytest.approx(whole.nll)
    assert pieced.brier == pytest.approx(whole.brier)
    np.testing.assert_array_equal(pieced.correct, whole.correct)


def test_unlabeled_images_count_nowhere():
    probabilities, labels = predictions()
    hidden = labels.copy()
    hidden[::3] = -1
    found = metrics.score(probabilities, hidden)
    assert found.accuracy == metrics.score(probabilities[hidden >= 0], hidden[hidden >= 0]).accuracy
    assert len(found.correct) == (hidden >= 0).sum()
    with pytest.raises(TrimtabError, match="label"):
        metrics.score(probabilities, np.full(len(labels), -1))
    with pytest.raises(TrimtabError, match="labels for"):
        metrics.score(probabilities, labels[:-1])


def test_absent_classes_have_no_recall():
    probabilities, labels = predictions(classes=4)
    labels[labels == 2] = 1
    recall = metrics.score(probabilities, labels).recall
    assert np.isnan(recall[2])
    assert np.isfinite(recall[[0, 1, 3]]).all()


def test_a_certain_mistake_has_a_finite_loss():
    assert np.isfinite(metrics.score(np.array([[1, 0]], np.float32), np.array([1])).nll)


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(1, 120))
def test_accuracy_along_ends_at_the_accuracy(correct, points):
    seen, accuracy = metrics.accuracy_along(np.array(correct), points)
    assert seen[-1] == len(correct)
    assert accuracy[-1] == pytest.approx(np.mean(correct))
    assert len(seen) <= points
    assert (np.diff(seen) > 0).all()


def test_compactness_grows_as_classes_shrink():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    centers = np.array([[0.0, 0.0], [5.0, 5.0]])[labels]
    noise = random.normal(size=(100, 2))
    wide, tight = (metrics.compactness(centers + size * noise, labels) for size in (1.0, 0.5))
    assert tight == pytest.approx(2 * wide, rel=1e-4)
    by_hand = np.mean([np.linalg.norm(p - noise[labels == c].mean(0)) for c in (0, 1) for p in noise[labels == c]])
    assert wide == pytest.approx(1 / by_hand, rel=1e-5)
    with pytest.raises(TrimtabError, match="two different labeled images"):
        metrics.compactness(np.zeros((2, 3)), np.array([0, 1]))


def test_a_temperature_from_labels_makes_sure_answers_less_sure():
    random = np.random.default_rng(0)
    logits = random.normal(size=(2000, 5))
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)  # drawn from their own softmax
    sure = metrics.tempered(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), 4.0)
    factor = metrics.temperature_of(sure, labels)
    assert factor == pytest.approx(0.25, rel=0.2)
    assert metrics.score(metrics.tempered(sure, factor), labels).ece < 0.03 < metrics.score(sure, labels).ece


def test_separation_is_the_share_of_right_answers_above_wrong_ones():
    scores, correct = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])
    assert metrics.separation(scores, correct) == pytest.approx((2 + 1.5) / 4)
    assert np.isnan(metrics.separation(scores, np.ones(4, bool)))


def test_a_clear_answer_has_a_high_score():
    from trimtab.predictions import clearness

    found = clearness(np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]], np.float32))
    np.testing.assert_allclose(found, [0.5, 0.0], atol=1e-6)
