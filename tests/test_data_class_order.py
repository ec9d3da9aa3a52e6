"""The self-check for shuffled labels: it stops for a wrong order, and only for that."""

import numpy as np
import pytest

from trimtab.data.class_order import check_class_order
from trimtab.errors import TrimtabError


def stream(classes, images, accuracy, seed=0):
    """Labels, and predictions that are right with the given probability and otherwise anything."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, images)
    right = rng.random(images) < accuracy
    return labels, np.where(right, labels, rng.integers(0, classes, images))


def names(classes):
    return [f"class {number}" for number in range(classes)]


@pytest.mark.parametrize(("classes", "images", "accuracy"), [(10, 1000, 0.9), (1000, 5000, 0.6), (47, 400, 0.3)])
def test_a_right_order_passes(classes, images, accuracy):
    labels, predictions = stream(classes, images, accuracy)
    found = check_class_order(labels, predictions, names(classes))
    assert found.accuracy == pytest.approx(accuracy, abs=0.12)
    assert found.chance == pytest.approx(1 / classes, rel=0.3)
    assert found.renamed >= found.accuracy


@pytest.mark.parametrize(("classes", "images", "accuracy"), [(10, 500, 0.5), (100, 2500, 0.4), (1000, 20_000, 0.6)])
def test_a_shuffled_order_is_stopped(classes, images, accuracy):
    labels, predictions = stream(classes, images, accuracy)
    wrong = np.random.default_rng(5).permutation(classes)
    with pytest.raises(TrimtabError, match="labels look shuffled: zero-shot accuracy is"):
        check_class_order(wrong[labels], predictions, names(classes))


def test_numbers_sorted_as_text_are_stopped_and_an_example_is_given():
    labels, predictions = stream(1000, 20_000, 0.7)
    as_text = np.argsort(np.argsort([str(number) for number in range(1000)]))
    with pytest.raises(TrimtabError, match=r"labeled 'class \d+' are mostly taken for 'class \d+'"):
        check_class_order(as_text[labels], predictions, names(1000))


@pytest.mark.parametrize("classes", [5, 100, 1000])
def test_an_encoder_that_knows_nothing_is_not_blamed_on_the_order(classes):
    labels, predictions = stream(classes, 3000, 0.0)
    found = check_class_order(labels, predictions, names(classes))
    assert found.renamed - found.renamed_by_chance < 0.05
    check_class_order(labels, np.zeros_like(labels), names(classes))  # always the same answer


def test_a_few_images_prove_nothing():
    check_class_order([0, 1, 2, 3], [1, 2, 3, 0], names(4))


def test_unlabeled_images_are_left_out_and_nonsense_is_refused():
    labels, predictions = stream(10, 1000, 0.8)
    labels[::2] = -1
    assert check_class_order(labels, predictions, names(10)).accuracy > 0.7
    with pytest.raises(TrimtabError, match="only be checked on labeled"):
        check_class_order([-1, -1], [0, 1], names(2))
    with pytest.raises(TrimtabError, match="is 9, but there are only 3"):
        check_class_order([0, 9], [0, 1], names(3))
    with pytest.raises(TrimtabError, match="give one each"):
        check_class_order([0, 1], [0], names(3))
