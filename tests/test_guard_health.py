"""What a stream notices of itself, what it does about it, and what a human answer changes."""

import numpy as np
import pytest

from tiny_encoder import ColorEncoder
from trimtab import MCP, Classifier, Guard, Stream, TrimtabError, make_method
from trimtab.engine.arrays import unit_rows
from trimtab.guard.health import ANSWER, LEAST, NEIGHBOR_ANSWER, NEIGHBOR_TEXT, TEXT
from trimtab.guard.unknown import Unknown, densest
from trimtab.guard.watch import FALLEN, FALLS, PATIENCE, RETURNS
from two_cones import two_cones


@pytest.fixture(scope="module")
def cones():
    return two_cones(700)


def test_a_healthy_stream_says_so(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard())
    answers = stream.run(images[:400]).labels
    health = stream.health()
    assert (health.seen, health.images) == (400, 256)
    text = (images[:400] @ task.text_prototypes.T).argmax(axis=1)
    assert health.flips == pytest.approx((answers[-256:] != text[-256:]).mean())
    assert health.coverage == 1.0
    assert 0 < health.age < 400
    assert health.collapse < 0.3
    assert health.drift < 0.05
    assert not health.hurts
    assert health.refused == {"duplicate": 0, "strange": 0, "quota": 0, "unknown": 0}


def test_drift_and_collapse_are_seen(cones):
    task, images, labels, _ = cones
    stream = MCP().start(task, Guard())
    stream.run(images[:300])
    direction = unit_rows(np.random.default_rng(3).normal(size=64))
    ones = images[labels == 1]
    moved = unit_rows(
        np.repeat(ones, 4, axis=0)[:256] + 0.6 * direction + 0.1 * np.random.default_rng(4).normal(size=(256, 64)) / 8
    )
    stream.run(moved)
    health = stream.health()
    assert health.drift > 0.05
    assert health.collapse > 0.25


def test_step_and_run_notice_the_same(cones):
    task, images, _, others = cones
    mixed = np.concatenate([images[:150], others[:20], images[150:250]])
    stepped, ran = (MCP().start(task, Guard(unknown=True)) for _ in range(2))
    answers = [stepped.step(image) for image in mixed]
    found = ran.run(mixed, block=50)
    np.testing.assert_allclose([answer.unknown for answer in answers], found.unknown, atol=1e-5)
    for name, array in stepped.watch.arrays().items():
        np.testing.assert_allclose(array, ran.watch.arrays()[name], atol=1e-4, err_msg=name)


def hurt(stream: Stream) -> None:
    """Make the stream's window say that adapting hurts: neighbors are alike to the text, not to the answers."""
    window = stream.watch.health.window
    window[:, TEXT] = window[:, NEIGHBOR_TEXT] = 0
    window[:, ANSWER], window[:, NEIGHBOR_ANSWER] = 1, 0


def test_zero_shot_takes_over_and_gives_back(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard(fall_back=True))
    stream.run(images[:256])
    hurt(stream)
    stream.watch.look_back(256)
    assert stream.health().fallen
    foretold = stream.predict(images[256])
    answer = stream.step(images[256])
    expected = make_method("zero_shot").start(task).step(images[256])
    assert (np.argsort(answer.probabilities) == np.argsort(expected.probabilities)).all(), "the text, at its own scale"
    assert np.array_equal(foretold.probabilities, answer.probabilities)
    stream.run(images[257:640])
    assert not stream.health().fallen
    assert stream.health().falls == 1
    off = MCP().start(task, Guard())
    off.run(images[:256])
    hurt(off)
    off.watch.look_back(256)
    assert not off.health().fallen


def test_nothing_is_said_of_a_young_stream(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard())
    stream.run(images[: LEAST - 1])
    hurt(stream)
    assert not stream.health().hurts


def test_the_last_good_state_comes_back(cones, tmp_path):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard(fall_back=True, snapshots=True))
    stream.run(images[:512])
    assert stream.good.taken[0] == 512
    good = {name: array.copy() for name, array in stream.state.arrays().items()}
    stream.run(images[512:576])
    stream.watch.events[FALLEN], stream.watch.health.window[:] = 1, 0
    hurt(stream)
    go_back = stream.watch.look_back(576 + PATIENCE)
    stream.good.look_back(576 + PATIENCE, stream.watch, stream._learned_arrays(), go_back=go_back)
    assert stream.watch.events[RETURNS] == 1
    for name, array in stream.state.arrays().items():
        assert np.array_equal(array, good[name]), name
    stream.save(tmp_path / "state")
    assert Stream.load(tmp_path / "state", task).good.taken[0] == 512
    assert stream.watch.events[FALLS] == 0


def test_images_of_nothing_known_are_named_and_not_learned(cones):
    task, images, _, others = cones
    mixed = np.concatenate([images[:300], others])
    mixed = mixed[np.random.default_rng(2).permutation(400)]
    foreign = np.isin(mixed, others).all(axis=1)
    stream = MCP().start(task, Guard(unknown=True))
    found = stream.run(mixed)
    late = np.arange(400) >= 128
    assert (found.unknown[late & foreign] > 0.5).mean() > 0.9
    assert (found.unknown[late & ~foreign] > 0.5).mean() < 0.3
    row = int(np.flatnonzero(late & foreign & (found.unknown > 0.5))[0])
    assert "none of the classes" in stream.why(row)
    assert MCP().start(task, Guard()).run(mixed).unknown.max() == 0


def test_the_densest_score_is_that_of_the_known():
    random = np.random.default_rng(0)
    scores = np.sort(np.concatenate([random.normal(1.0, 0.1, 700), random.normal(0.2, 0.02, 300)]))
    assert densest(scores) == pytest.approx(1.0, abs=0.1)
    few = Unknown()
    few.take_in(np.zeros((10, 4)))
    few.renew()
    assert few.probabilities(np.zeros((1, 4)))[0] < 1e-9, "nothing is said of ten images"


@pytest.mark.parametrize("name", ["mcp", "tda", "mcp_plus", "keel"])
def test_a_correction_moves_an_item(name, cones):
    task, images, _, _ = cones
    stream = make_method(name).start(task, Guard())
    stream.run(images[:40])
    bank = next(iter(stream.state.banks()))
    label, slot = np.argwhere(bank.sources >= 0)[0]
    position = int(bank.sources[label, slot])
    other = (int(label) + 1) % task.classes
    assert stream.correct(position, other) >= 1
    assert position not in bank.sources[label]
    assert position in bank.sources[other]
    np.testing.assert_allclose(bank.gram, np.einsum("ckd,cld->ckl", bank.features, bank.features), atol=1e-5)
    stream.run(images[40:80])
    assert stream.correct(10**6, 0) == 0, "an image that is not held"
    assert stream.correct(10**6, 0, images[99]) == 0
    assert 10**6 in bank.sources[0]


def test_corrections_that_cannot_be_are_refused(cones):
    task, _, _, _ = cones
    stream = MCP().start(task, Guard())
    with pytest.raises(TrimtabError, match="below 6"):
        stream.correct(0, 6)
    with pytest.raises(TrimtabError, match="cannot be corrected"):
        make_method("dpe").start(task, Guard()).correct(0, 1)
    with pytest.raises(TrimtabError, match="watches itself"):
        MCP().start(task).health()


def test_a_classifier_can_say_none_of_these():
    classifier = Classifier(ColorEncoder(), ["red", "green"], unknown="auto")
    assert classifier.stream.guard == Guard(unknown=True)
    with pytest.raises(TrimtabError, match="leave guard on"):
        Classifier(ColorEncoder(), ["red", "green"], unknown="auto", guard=False)
    with pytest.raises(TrimtabError, match="unknown must be"):
        Classifier(ColorEncoder(), ["red", "green"], unknown="yes")
