"""Looking ahead: the answers of one at a time, in order, promptly, within bounds, without a trace of what is ahead."""

import itertools
import queue
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.errors import TrimtabError
from trimtab.images.read_ahead import ReadAhead
from trimtab.look_ahead import VIEWS_AT_ONCE, LookAhead

NAMES = tuple(COLORS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def pictures(count=60):
    return [colored(NAMES[i % 4], seed=i, noise=120) for i in range(count)]


def threads_left():
    names = ("read-ahead", "encoder")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]


@pytest.mark.parametrize("views", [1, 3])
def test_many_give_the_answers_of_one_at_a_time(views):
    one, many = (Classifier(ColorEncoder(), NAMES, views=views) for _ in range(2))
    expected = [one.classify(picture) for picture in pictures()]
    answers = list(many.classify_many(pictures()))
    assert [guesses for _, guesses in answers] == expected
    assert all(np.array_equal(given, picture) for (given, _), picture in zip(answers, pictures(), strict=True))
    assert all(np.array_equal(array, many.stream.arrays()[name]) for name, array in one.stream.arrays().items())
    assert max(many.encoder.calls) > views  # in batches


def test_what_was_read_ahead_and_not_asked_for_leaves_no_trace():
    one, many = Classifier(ColorEncoder(), NAMES), Classifier(ColorEncoder(), NAMES)
    for picture in pictures()[:7]:
        one.classify(picture)
    answers = many.classify_many(pictures())
    list(itertools.islice(answers, 7))
    answers.close()
    assert many.seen == 7
    assert all(np.array_equal(array, many.stream.arrays()[name]) for name, array in one.stream.arrays().items())
    deadline = time.monotonic() + 5
    while threads_left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not threads_left()


def test_images_that_cannot_be_read_keep_their_place(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 nothing")
    given = [*pictures(3), tmp_path / "broken.jpg", *pictures(2)]
    classifier, wrong = Classifier(ColorEncoder(), NAMES), []
    answers = classifier.classify_many(given, unreadable=lambda image, error: wrong.append((image, classifier.seen)))
    assert len(list(answers)) == 5
    assert wrong == [(tmp_path / "broken.jpg", 3)]
    classifier.reset()
    answers = classifier.classify_many(given)
    with pytest.raises(TrimtabError, match="broken"):
        list(answers)
    assert classifier.seen == 3


def test_a_slow_camera_is_answered_image_by_image():
    shown = queue.Queue()
    answers = Classifier(ColorEncoder(), NAMES).classify_many(picture for (picture,) in iter(shown.get, None))
    for number, picture in enumerate(pictures(5)):
        shown.put((picture,))
        assert next(answers)[1][0]["label"] == NAMES[number % 4]  # the camera shows the next one only then
    shown.put(None)
    assert list(answers) == []


def test_an_endless_stream_is_read_within_bounds():
    asked = itertools.count()
    endless = (pictures(4)[number % 4] for number in asked)
    answers = Classifier(ColorEncoder(), NAMES).classify_many(endless)
    list(itertools.islice(answers, 10))
    time.sleep(0.2)
    assert next(asked) <= 10 + 6 * VIEWS_AT_ONCE
    answers.close()


def test_errors_of_the_iterable_and_bugs_come_through_after_what_came_before():
    def torn():
        yield from pictures(3)
        raise OSError("the camera is gone")

    classifier = Classifier(ColorEncoder(), NAMES)
    with pytest.raises(OSError, match="the camera is gone"):
        list(classifier.classify_many(torn()))
    assert classifier.seen == 3

    def bug(item):
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        list(LookAhead([1, 2], bug, None))


def test_a_batch_that_cannot_be_encoded_costs_only_its_bad_image():
    class Picky(ColorEncoder):
        def encode_images(self, pixels):
            if any((image[0, 0] == 255).all() for image in pixels):
                raise TrimtabError("too bright")
            return super().encode_images(pixels)

    white = np.full((40, 60, 3), 255, np.uint8)
    wrong = []
    classifier = Classifier(Picky(), NAMES)
    given = [*pictures(20), white, *pictures(20)]
    answers = list(classifier.classify_many(given, unreadable=lambda image, error: wrong.append(str(error))))
    assert wrong == ["too bright"]
    assert len(answers) == 40


def test_a_slow_encoder_gets_small_batches():
    sizes = []

    def encode(pixels):
        sizes.append(len(pixels))
        time.sleep(0.2 * len(pixels))
        return np.zeros((len(pixels), 4), np.float32)

    list(LookAhead(range(8), lambda _: np.zeros((1, 2, 2, 3), np.uint8), encode))
    assert max(sizes) <= 2  # half a second's worth


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.0, 0.003]), max_size=30),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_read_ahead_keeps_the_order_and_the_bound(delays, ahead, workers, most):
    begun, taken = 0, 0

    def make(item):
        time.sleep(item[1])
        return item[0] * 2

    def items():
        nonlocal begun
        for item in enumerate(delays):
            begun += 1
            assert begun - taken <= ahead + most + 1
            yield item

    read = ReadAhead(items(), make, ahead=ahead, workers=workers)
    found = []
    while some := read.take(most):
        assert len(some) <= most
        found += [(item[0], work.result()) for item, work in some]
        taken += len(some)
    assert found == [(number, 2 * number) for number in range(len(delays))]
    read.close()


@pytest.mark.parametrize("wrong", ["photo.jpg", b"bytes", 17, None])
def test_one_image_is_not_many(wrong):
    with pytest.raises(TrimtabError, match="images must be several"):
        Classifier(ColorEncoder(), NAMES).classify_many(wrong)
