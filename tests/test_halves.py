"""How sure answers should be, from halves of the features: against a plain twin, and what it must tell apart."""

import numpy as np
import pytest

from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab import MCP, Task
from trimtab.engine.block import Block
from trimtab.engine.equations import softmax
from trimtab.engine.halves import TextHalves
from trimtab.engine.temper import TextTemper


def stream_of(agreement: float, classes: int = 12, images: int = 300) -> tuple[Task, np.ndarray]:
    features, _, text = make_features(classes, 64, 1, images, seed=2, shape=Shape(agreement=agreement))
    return Task([str(c) for c in range(classes)], text, LOGIT_SCALE), features


def opened(task: Task, views: np.ndarray) -> Block:
    block = Block(task, views, 0)
    TextTemper(task.logit_scale, task.classes).open(block)
    return block


def odds(share: float) -> float:
    kept = min(max(share, 0.02), 0.98)
    return kept / (1 - kept)


def plain_twin(task: Task, views: np.ndarray, stated: np.ndarray, named: np.ndarray, every: int = 1) -> list[float]:
    """How sure each answer should be, image by image, in double precision."""
    text, half = task.text_prototypes.astype(np.float64), task.dim // 2
    first_seen: list[np.ndarray] = []
    second_seen: list[np.ndarray] = []
    halves, retrieved, found, compared = 0.5, 0.5, [], 0
    for n, image in enumerate(views[:, 0].astype(np.float64)):
        witnessed = (odds(halves) * odds(retrieved)) ** 0.65 * odds(stated[n]) ** 0.4
        witnessed *= min(task.classes, 100) ** 0.25 / np.e
        known = compared / (compared + 20)
        right = witnessed**known * odds(stated[n]) ** (1 - known)
        found.append(right / (1 + right))
        if n % every:
            continue
        first, second = text[:, :half] @ image[:half], text[:, half:] @ image[half:]
        if first_seen:
            one, other = first - np.mean(first_seen, axis=0), second - np.mean(second_seen, axis=0)
            step = 1 / min(len(first_seen), 200)
            compared += 1
            halves += step * (float(one.argmax() == other.argmax()) - halves)
            retrieved += step * (float((one + other).argmax() == named[n]) - retrieved)
        first_seen.append(first)
        second_seen.append(second)
    return found


@pytest.mark.parametrize("every", [1, 3])
def test_they_equal_the_plain_twin(every):
    task, views = stream_of(0.6)
    retrieval = np.random.default_rng(0).random((len(views), task.classes), np.float32)
    retrieval[::2] += 3 * softmax(40 * views[::2, 0] @ task.text_prototypes.T)
    block = opened(task, views)
    stated = block.sure.copy()
    halves = TextHalves(task.classes)
    halves._every = every
    for rows in (slice(0, 1), slice(1, 100), slice(100, 300)):
        halves.learn(block, rows, retrieval[rows], np.ones(rows.stop - rows.start, np.bool_))
    expected = plain_twin(task, views, stated, retrieval.argmax(axis=1), every)
    assert np.ptp(expected[100:]) > 0.02
    np.testing.assert_allclose(block.sure, expected, atol=1e-4)


def test_an_image_that_is_not_learned_from_leaves_no_trace():
    task, views = stream_of(0.6)
    learned = np.arange(len(views)) % 3 > 0
    retrieval = softmax(40 * views[:, 0] @ task.text_prototypes.T)
    some, only = TextHalves(task.classes), TextHalves(task.classes)
    some.learn(opened(task, views), slice(0, len(views)), retrieval, learned)
    only.learn(opened(task, views[learned]), slice(0, int(learned.sum())), retrieval[learned], np.ones(200, np.bool_))
    for name, array in some.arrays().items():
        np.testing.assert_allclose(array, only.arrays()[name], atol=1e-6)


def test_with_very_many_classes_few_images_are_asked():
    assert [TextHalves(classes)._every for classes in (10, 499, 1000, 20_000)] == [1, 1, 4, 80]


def test_a_good_text_is_told_from_a_bad_one_whatever_scale_is_stated():
    sure = {}
    for agreement in (0.2, 0.9):
        task, views = stream_of(agreement, images=500)
        stream = MCP().start(task)
        stream.run(views)
        sure[agreement] = stream.state.halves.figures[1:]
    assert (sure[0.9] > sure[0.2] + 0.15).all()


def test_the_first_answer_is_as_sure_as_the_text_says_it_is():
    task, views = stream_of(0.6)
    block = opened(task, views[:1])
    stated = float(block.sure[0])
    TextHalves(task.classes).learn(block, slice(0, 1), np.ones((1, task.classes), np.float32), np.ones(1, np.bool_))
    assert float(block.sure[0]) == pytest.approx(stated)


def test_a_strong_text_of_two_labels_is_sure_within_a_hundred_images():
    task, views = stream_of(0.9, classes=2, images=100)
    found = MCP().start(task).run(views)
    assert (found.labels == (views[:, 0] @ task.text_prototypes.T).argmax(axis=1)).mean() > 0.95
    assert found.probabilities[50:].max(axis=1).mean() > 0.93


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_few_dimensions_break_nothing(dim):
    random = np.random.default_rng(0)
    unit = random.normal(size=(43, dim)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    task = Task(["a", "b", "c"], unit[:3], 20.0)
    assert np.isfinite(MCP().start(task).run(unit[3:]).probabilities).all()
