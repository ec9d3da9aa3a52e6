"""One encoder for all streams: the features that `Classifier` sees, in batches, whatever else comes."""

import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest

from tests.serving import LABELS, picture, pictures
from tests.tiny_encoder import ColorEncoder
from trimtab.classifier import Classifier
from trimtab.errors import TrimtabError
from trimtab.serve.encoding import Batch, SharedEncoder
from trimtab.serve.problems import Busy


class SlowEncoder(ColorEncoder):
    """Waits until it is let go on, so that pictures gather."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()

    def encode_images(self, pixels):
        self.go_on.wait(10)
        return super().encode_images(pixels)


@pytest.fixture
def shared():
    encoder = SharedEncoder(ColorEncoder(), lanes=2)
    yield encoder
    encoder.close()


@pytest.mark.parametrize("views", [1, 5])
def test_features_are_those_of_the_classifier(shared, views):
    classifier = Classifier(ColorEncoder(), LABELS, views=views, seed=3)
    given = [*pictures(9), picture("blue", 4, "JPEG")]
    found = shared.features(given, views, seed=3)
    for file, rows in zip(given, found, strict=True):
        np.testing.assert_array_equal(rows.result(10), classifier.features(file))
    further = shared.features(given[:1], views + 2, seed=3, first=views)[0].result(10)
    whole = shared.features(given[:1], views + 2, seed=3)[0].result(10)
    np.testing.assert_array_equal(further, whole[views:])


def test_what_waits_is_encoded_together_and_half_is_left_for_the_next_batch():
    encoder = SlowEncoder()
    batches: list[Batch] = []
    shared = SharedEncoder(encoder, lanes=1, told=batches.append)
    futures = shared.features(pictures(16))
    until(lambda: not shared._decoding)
    encoder.go_on.set()
    shared.close()
    assert all(future.done() for future in futures)
    assert sum(batch.pictures for batch in batches) == 16
    assert len(batches) <= 8
    assert max(batch.pictures for batch in batches) <= 8


def test_one_bad_picture_is_its_own_error_only(shared):
    good, bad, after = shared.features([picture(), b"nonsense", picture()])
    with pytest.raises(TrimtabError, match="is not an image"):
        bad.result(10)
    np.testing.assert_array_equal(good.result(10), after.result(10))
    assert shared.under_way == 0


def test_more_than_fits_is_refused_whole():
    encoder = SlowEncoder()
    shared = SharedEncoder(encoder, most_waiting=3)
    first = shared.features(pictures(2))
    with pytest.raises(Busy) as refused:
        shared.features(pictures(2))
    assert refused.value.status == 503
    assert int(refused.value.headers["Retry-After"]) >= 1
    encoder.go_on.set()
    assert [len(future.result(10)) for future in first] == [1, 1]
    shared.close()
    with pytest.raises(Busy, match="stopping"):
        shared.features(pictures(1))


def test_a_picture_whose_client_has_left_is_not_encoded():
    encoder = SlowEncoder()
    shared = SharedEncoder(encoder, lanes=1)
    shared.features(pictures(1))
    with shared._changed:  # nothing is decoded while we hold it
        futures: list[Future] = shared.features(pictures(40, first=100))
        cancelled = sum(future.cancel() for future in futures)
    encoder.go_on.set()
    shared.close()
    assert cancelled > 0
    assert shared.under_way == 0
    assert sum(encoder.calls) == 41 - cancelled


def test_pictures_of_many_threads_get_their_own_features(shared):
    wrong = []
    classifier = Classifier(ColorEncoder(), LABELS)

    def client(number):
        file = picture(LABELS[number % 4], 1000 + number)
        expected = classifier.features(file)
        wrong.extend(rows for rows in shared.features([file] * 3) if not np.array_equal(rows.result(20), expected))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Gates(ColorEncoder):
    """Each call waits for a gate of its own."""

    def __init__(self):
        super().__init__()
        self.entered, self.gates = threading.Semaphore(0), [threading.Event() for _ in range(3)]
        self._gates = iter(self.gates)

    def encode_images(self, pixels):
        gate = next(self._gates, None)
        if gate is not None:
            self.entered.release()
            assert gate.wait(10)
        return super().encode_images(pixels)


def two_lanes_at_work():
    """An encoder, its lanes, and what each of the two is busy with."""
    encoder = Gates()
    shared = SharedEncoder(encoder, lanes=2)
    both = shared.features(pictures(1)) + shared.features(pictures(1, first=1))
    for _ in both:
        assert encoder.entered.acquire(timeout=10)
    return encoder, shared, both


def until(happened):
    deadline = time.monotonic() + 10
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_lane_with_work_to_do_leaves_its_answers_for_the_next_that_is_done():
    encoder, shared, early = two_lanes_at_work()
    later = shared.features(pictures(8, first=2))
    until(lambda: not shared._decoding)
    encoder.gates[0].set()  # one lane is done, and takes what is ready
    assert encoder.entered.acquire(timeout=10)
    assert [future.done() for future in early] == [False, False]
    encoder.gates[1].set()
    assert [len(future.result(10)) for future in early] == [1, 1]
    encoder.gates[2].set()
    assert [len(future.result(10)) for future in later] == [1] * 8
    shared.close()


def test_a_lane_with_nothing_to_do_answers_at_once():
    encoder, shared, both = two_lanes_at_work()
    encoder.gates[0].set()
    until(lambda: any(future.done() for future in both))
    assert sum(future.done() for future in both) == 1
    encoder.gates[1].set()
    shared.close()
    assert all(future.done() for future in both)
