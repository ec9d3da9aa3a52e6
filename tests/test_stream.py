"""Streams as users hold them."""

import signal
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from trimtab import MCP, Stream, TrimtabError, ZeroShot
from trimtab.checks import random_stream


@pytest.fixture
def setting():
    return random_stream(classes=6, dim=10, views=3, images=90, seed=4)


def test_zero_shot_is_the_softmax_of_the_plain_view(setting):
    task, features = setting
    logits = task.logit_scale * features[:, 0] @ task.text_prototypes.T
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ZeroShot().start(task).run(features).probabilities, expected, atol=1e-5)


def test_progress_counts_every_image(setting):
    task, features = setting
    calls: list[int] = []
    MCP().start(task).run(features, block=40, progress=calls.append)
    assert calls == [40, 80, 90]


def test_parts_can_be_left_out(setting):
    task, features = setting
    slim, full = MCP().start(task).run(features, keep_parts=False), MCP().start(task).run(features)
    assert slim.parts == {}
    np.testing.assert_array_equal(slim.probabilities, full.probabilities)


def test_a_memory_map_is_streamed(setting, tmp_path):
    task, features = setting
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    expected = MCP().start(task).run(features).probabilities
    np.testing.assert_array_equal(MCP().start(task).run(mapped).probabilities, expected)


def test_one_view_may_be_given_without_its_axis(setting):
    task, features = setting
    plain = features[:, 0]
    with_axis = MCP().start(task).run(plain[:, None]).probabilities
    np.testing.assert_array_equal(MCP().start(task).run(plain).probabilities, with_axis)
    assert MCP().start(task).step(plain[0]).label == with_axis[0].argmax()


@pytest.mark.parametrize("call", ["step", "run"])
def test_tensors_are_taken_or_refused_in_a_sentence(setting, call):
    torch = pytest.importorskip("torch")
    task, features = setting
    given = features[0] if call == "step" else features
    expected = getattr(MCP().start(task), call)(given).probabilities
    tensor = torch.tensor(given)
    np.testing.assert_array_equal(getattr(MCP().start(task), call)(tensor).probabilities, expected)
    stream = MCP().start(task)
    for wrong in (tensor.bfloat16(), tensor.requires_grad_()):
        with pytest.raises(TrimtabError, match="features must be an array of numbers, and cannot be made one: "):
            getattr(stream, call)(wrong)
    assert stream.seen == 0


def test_lists_are_taken(setting):
    task, features = setting
    expected = MCP().start(task).run(features).labels
    np.testing.assert_array_equal(MCP().start(task).run(features.tolist()).labels, expected)


def test_an_empty_stream_is_no_error(setting):
    task, features = setting
    assert len(MCP().start(task).run(features[:0])) == 0


def test_lengths_of_features_do_not_matter(setting):
    task, features = setting
    expected = MCP().start(task).run(features).probabilities
    np.testing.assert_allclose(MCP().start(task).run(7.5 * features).probabilities, expected, atol=1e-5)


def test_the_bad_image_is_named(setting):
    task, features = setting
    features[70, 2, 3] = np.nan
    with pytest.raises(TrimtabError, match="View 2 of image 70 holds NaN or infinity"):
        MCP().start(task).run(features)


def test_a_stream_counts_what_it_has_seen_and_says_where_its_items_came_from(setting):
    task, features = setting
    stream = MCP().start(task)
    stream.run(features[:50])
    stream.step(features[50])
    stream.predict(features[51])
    assert stream.seen == 51
    bank = stream.state.caches.bank
    for label, slot in np.argwhere(bank.sources >= 0):
        source = bank.sources[label, slot]
        np.testing.assert_allclose(bank.features[label, slot], features[source, 0], atol=1e-6)


@dataclass(frozen=True, kw_only=True)
class Interrupted(MCP):
    """Sends itself a signal, or fails, in the middle of its third step."""

    name: ClassVar[str] = "interrupted"

    def step(self, image, state):
        parts = super().step(image, state)
        if image.position == 2:
            what_happens.pop()()
        return parts


what_happens = []


@pytest.mark.parametrize("way", ["step", "run"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_within_a_step_arrives_after_it(setting, way, number):
    task, features = setting
    whole, stream = Interrupted().start(task), Interrupted().start(task)
    what_happens[:] = [lambda: None]
    for image in features:
        whole.step(image)
    what_happens[:] = [lambda: signal.raise_signal(number)]
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            for image in features if way == "step" else [features]:
                getattr(stream, way)(image)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert stream.seen == 3
    for image in features[3:]:
        stream.step(image)
    for name, array in stream.arrays().items():  # a block's products are rounded otherwise than an image's
        np.testing.assert_allclose(array, whole.arrays()[name], atol=0 if way == "step" else 1e-4)


def test_a_step_that_breaks_off_is_said_from_then_on(setting, tmp_path):
    task, features = setting
    stream = Interrupted().start(task)

    def fail():
        raise MemoryError

    what_happens[:] = [fail]
    with pytest.raises(MemoryError):
        stream.run(features)
    for use in (
        lambda: stream.step(features[0]),
        lambda: stream.predict(features[0]),
        lambda: stream.run(features),
        lambda: stream.save(tmp_path / "state"),
        stream.copy,
    ):
        with pytest.raises(TrimtabError, match="Taking in image 2 was broken off"):
            use()
    assert not (tmp_path / "state").exists()
    stream.reset()
    what_happens[:] = [lambda: None]
    assert len(stream.run(features)) == 90


def test_a_note_is_saved_with_what_was_learned(setting, tmp_path):
    task, _ = setting
    stream = MCP().start(task)
    stream.note = {"page": 7, "of": ["a", "b"]}
    stream.save(tmp_path / "state")
    assert Stream.load(tmp_path / "state", task).note == {"page": 7, "of": ["a", "b"]}
    assert stream.copy().note == stream.note
    stream.reset()
    assert stream.note == {}


def test_an_interrupted_run_leaves_a_stream_that_can_go_on(setting):
    task, features = setting
    stream = MCP().start(task)

    def interrupt(done: int) -> None:
        if done >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream.run(features, block=20, progress=interrupt)
    assert stream.seen == 40
    rest = stream.run(features[40:]).probabilities
    np.testing.assert_allclose(rest, MCP().start(task).run(features).probabilities[40:], atol=1e-5)


def test_features_too_large_for_float32_are_refused_without_a_warning(setting):
    task, features = setting
    stream, large = MCP().start(task), features.astype(np.float64)
    large[2, 0] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for take_in in (lambda: stream.run(large), lambda: stream.step(large[2])):
            with pytest.raises(TrimtabError, match="holds NaN or infinity"):
                take_in()
    assert stream.seen == 0


def test_what_keeps_no_positions_says_how_to_let_go_of_an_image(setting):
    task, features = setting
    stream = ZeroShot().start(task)
    stream.run(features)
    words = "so it cannot let go of one; go back to a state from before, or reset[.]$"
    with pytest.raises(TrimtabError, match=words):
        stream.evict(3)
