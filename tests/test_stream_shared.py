"""Streams that several threads hold, and streams that Python copies and pickles."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

from trimtab import DPE, MCP, TDA, Guard, Keel, Stream, TrimtabError
from trimtab.checks import random_stream


@pytest.fixture
def setting():
    return random_stream(classes=6, dim=10, views=1, images=400, seed=4)


@pytest.fixture
def eager_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work, count=4):
    """What `work(k)` raised in each of several threads."""
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("guard", [None, Guard()])
def test_threads_take_turns(setting, guard):
    task, features = setting
    stream = Keel().start(task, guard)

    def work(k: int) -> None:
        for views in features[k::4]:
            stream.step(views)

    assert together(work) == []
    assert stream.seen == len(features)
    stream.step(features[0])


@pytest.mark.usefixtures("eager_threads")
def test_looks_of_many_threads_are_one_look(setting):
    task, features = setting
    stream = Keel().start(task)
    stream.run(features[:300])
    expected = stream.predict(features[300]).probabilities

    def work(_: int) -> None:
        for _ in range(50):
            np.testing.assert_array_equal(stream.predict(features[300]).probabilities, expected)

    assert together(work) == []


@pytest.mark.usefixtures("eager_threads")
def test_what_is_saved_while_another_thread_steps_is_a_moment_of_the_stream(setting, tmp_path):
    task, features = setting
    moments = {0: {name: array.copy() for name, array in MCP().start(task).arrays().items()}}
    alone = MCP().start(task)
    for views in features:
        alone.step(views)
        moments[alone.seen] = {name: array.copy() for name, array in alone.arrays().items()}
    stream, done = MCP().start(task), threading.Event()

    def work(k: int) -> None:
        if k == 0:
            for views in features:
                stream.step(views)
            done.set()
            return
        while not done.is_set():
            stream.save(tmp_path / "state")
            found = Stream.load(tmp_path / "state", task)
            for name, array in found.arrays().items():
                np.testing.assert_array_equal(array, moments[found.seen][name], err_msg=name)

    assert together(work, 2) == []


def test_a_run_lets_others_look_between_its_blocks(setting):
    task, features = setting
    stream = MCP().start(task)
    seen: list[int] = []

    def look(_: int) -> None:
        assert together(lambda _: stream.predict(features[0]), 1) == []
        seen.append(stream.seen)

    stream.run(features[:200], block=64, progress=look)
    assert seen == [64, 128, 192, 200]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
@pytest.mark.parametrize("method", [Keel(), MCP(), TDA(), DPE()])
def test_every_way_to_copy_gives_an_independent_stream_that_continues_alike(setting, method, copied):
    task, features = setting
    stream = method.start(task, Guard(snapshots=1))
    stream.run(features[:200])
    stream.note = {"cameras": ["first"]}
    other = copied(stream)
    other.note["cameras"].append("second")
    expected = other.run(features[200:]).probabilities
    assert (stream.seen, stream.note) == (200, {"cameras": ["first"]})
    np.testing.assert_array_equal(stream.run(features[200:]).probabilities, expected)
    assert other.guard == stream.guard


def test_a_note_that_cannot_be_saved_is_refused_and_the_old_file_stays(setting, tmp_path):
    task, features = setting
    stream = MCP().start(task)
    stream.save(tmp_path / "state")
    stream.run(features[:10])
    itself: dict[str, object] = {}
    itself["again"] = itself
    for note, says in (
        ({"mean": np.ones(2)}, "note must hold only what JSON can hold: Object of type ndarray"),
        ([1], r"note must be a dict of what JSON can hold, not \[1\]"),
        (itself, "Circular reference"),
    ):
        stream.note = note
        with pytest.raises(TrimtabError, match=says):
            stream.save(tmp_path / "state")
    assert Stream.load(tmp_path / "state", task).seen == 0


def test_a_class_in_the_place_of_a_method_is_refused(setting, tmp_path):
    task, _ = setting
    MCP().start(task).save(tmp_path / "state")
    with pytest.raises(TrimtabError, match=r"method must be a method such as MCP\(\), not the class MCP"):
        Stream.load(tmp_path / "state", task, MCP)


def test_a_stream_says_what_it_is(setting):
    task, features = setting
    stream = MCP().start(task, Guard())
    stream.run(features[:10])
    assert repr(stream) == "<Stream: mcp, 6 classes, 10 seen, guarded>"


def test_an_image_that_has_not_come_can_neither_be_corrected_nor_evicted(setting):
    task, features = setting
    stream = MCP().start(task)
    stream.run(features[:10])
    for call in (lambda: stream.correct(10, 1, features[10]), lambda: stream.evict(10)):
        with pytest.raises(TrimtabError, match="There is no image 10, counted from 0; the stream has seen 10"):
            call()


def test_a_state_of_another_method_is_refused_in_few_words(setting, tmp_path):
    task, _ = setting
    Keel().start(task).save(tmp_path / "state")
    with pytest.raises(TrimtabError, match=r"state was saved by keel, not by mcp\.$"):
        Stream.load(tmp_path / "state", task, MCP())
    with pytest.raises(TrimtabError, match=r"keel with memory_slots=2048, not with memory_slots=100\.$"):
        Stream.load(tmp_path / "state", task, Keel(memory_slots=100))
