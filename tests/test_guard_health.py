"""What a stream notices of itself, what it does about it, and what a human answer changes."""

import numpy as np
import pytest

from tiny_encoder import ColorEncoder
from trimtab import MCP, Classifier, Guard, Keel, Stream, TrimtabError, make_method
from trimtab.engine.arrays import unit_rows
from trimtab.guard.admission import DIARY
from trimtab.guard.correction import without_corrected
from trimtab.guard.health import ANSWER, LEAST, TAKEN_BACK, TEXT
from trimtab.guard.judging import LEARNS
from trimtab.guard.runs import Runs
from trimtab.guard.snapshots import EVERY
from trimtab.guard.sources import NO_SOURCE
from trimtab.guard.unknown import Unknown, densest
from trimtab.guard.watch import FALLEN, LOG, PATIENCE, SINCE, Watch
from two_cones import two_cones


@pytest.fixture(scope="module")
def cones():
    return two_cones(700)


def test_a_healthy_stream_says_so(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard())
    assert stream.health().hurts is False
    answers = stream.run(images[:400]).labels
    health = stream.health()
    assert (health.seen, health.images) == (400, 256)
    text = (images[:400] @ task.text_prototypes.T).argmax(axis=1)
    assert health.flips == pytest.approx((answers[-256:] != text[-256:]).mean())
    assert health.coverage == 1.0
    assert 0 < health.age < 400
    assert health.collapse < 0.3
    assert health.drift < 0.05
    assert health.hurts is False
    assert health.refused == {"duplicate": 0, "strange": 0, "quota": 0, "unknown": 0}


def test_a_part_that_has_nothing_to_say_yet_does_not_disagree(cones):
    task, images, _, _ = cones
    stream = Keel().start(task, Guard())
    found = stream.run(images[:40])
    assert np.ptp(found.parts.pop("whitened")) == 0  # its memory waits for more images
    agreed = np.all([part.argmax(axis=1) == found.labels for part in found.parts.values()], axis=0)
    assert agreed.any()
    assert stream.health().agreement == pytest.approx(agreed.mean())


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
    """Make the stream's window say that adapting hurts: every answer differs from the text's and was taken back."""
    window = stream.watch.health.window
    window[:, TEXT], window[:, ANSWER], window[:, TAKEN_BACK] = 0, 1, 1


def test_zero_shot_takes_over_and_gives_back(cones, caplog):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard())
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
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "Adapting hurts",
        "Adapting helps again",
    ]
    off = MCP().start(task, Guard(fall_back=False))
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


def test_the_last_good_states_come_back_one_after_the_other(cones, tmp_path):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard(snapshots=2))
    good = []
    for _ in range(3):
        stream.run(images[:EVERY])
        good.append({name: array.copy() for name, array in stream.state.arrays().items()})
    assert sorted(stream.good.taken) == [2 * EVERY, 3 * EVERY], "a ring of two"
    stream.run(images[EVERY:600])
    for state, left in ((good[2], 1), (good[1], 0)):
        stream.watch.events[FALLEN], stream.watch.events[SINCE] = 1, stream.seen - PATIENCE
        hurt(stream)
        go_back = stream.watch.look_back(stream.seen)
        stream.good.look_back(stream.seen, stream.watch, stream._learned_arrays(), go_back=go_back)
        for name, array in stream.state.arrays().items():
            assert np.array_equal(array, state[name]), name
        assert (stream.good.taken >= 0).sum() == left, "what was put back is used up"
        stream.save(tmp_path / "state")
        assert np.array_equal(Stream.load(tmp_path / "state", task).good.taken, stream.good.taken)
    assert stream.health().returns == 2


def sorted_and_shuffled(cones):
    """The same images sorted by class, with each class in one run, and as they came; and a wrong answer to each."""
    task, images, labels, _ = cones
    text = (images @ task.text_prototypes.T).argmax(axis=1)
    wrong = np.full((len(images), task.classes), 0.01, np.float32)
    wrong[np.arange(len(images)), (text + 1) % task.classes] = 0.45
    wrong[np.arange(len(images)), text] = 0.3
    orders = np.argsort(labels, kind="stable"), np.arange(len(images))
    return task, ((images[order], wrong[order]) for order in orders)


def heard(task, images, answers, learned):
    """A watch that has judged images and heard answers (n, C) to them, and which it took back."""
    watch, block = Watch(Guard(), task), MCP().look(task, images[:, None], 0)
    nobody = np.full(len(images), NO_SOURCE)
    watch.judge(block, nobody)
    watch.admission.found[LEARNS] = learned
    watch.hear(block, slice(0, len(images)), {"text": answers}, answers)
    return watch


def test_runs_of_classes_take_wrong_answers_back(cones):
    task, orders = sorted_and_shuffled(cones)
    shares = []
    for images, wrong in orders:
        watch = heard(task, images, wrong, np.ones(len(images), np.bool_))
        shares.append((watch.taken_back[100 : len(images)].mean(), watch.runs.share))
    (in_runs, sorted_share), (mixed, shuffled_share) = shares
    assert in_runs > 0.6
    assert sorted_share > 0.7
    assert mixed < 0.05
    assert shuffled_share < 0.3


def test_images_that_are_not_learned_do_not_count_for_runs(cones):
    task, orders = sorted_and_shuffled(cones)
    images, wrong = next(orders)
    watch = heard(task, images, wrong, np.zeros(len(images), np.bool_))
    for name, array in Runs(task.classes).arrays().items():
        assert np.array_equal(array, watch.runs.arrays()[name]), name


def test_a_class_that_was_away_for_long_is_no_surprise_to_arithmetic(cones):
    task, images, _, _ = cones
    watch, block = Watch(Guard(), task), MCP().look(task, np.repeat(images[:1, None], 2000, axis=0), 0)
    watch.judge(block, np.full(2000, NO_SOURCE))
    watch.admission.found[LEARNS] = True
    one, other = np.zeros((2, 2000, task.classes), np.float32)
    one[:, 0], other[:, 5] = 1, 1
    for answers in (*[one] * 60, other):  # 120,000 images of one class
        watch.hear(block, slice(0, 2000), {"text": answers}, answers)
    smallest = np.finfo(np.float64).tiny  # below, arithmetic is slow
    for name, array in watch.runs.arrays().items():
        assert np.isfinite(array).all(), name
        assert (array > smallest).all(), name


def test_an_answer_that_is_taken_back_is_the_texts_and_says_so(cones):
    task, images, _, _ = cones
    stream, plain = MCP().start(task, Guard()), MCP().start(task, Guard(fall_back=False))
    text = (images @ task.text_prototypes.T).argmax(axis=1)
    for position, image in enumerate(images):
        if plain.predict(image).label != text[position]:
            break
        plain.step(image)
        stream.step(image)
    for said in (stream.watch.runs.text, stream.watch.runs.answers):  # as if it had shown this class alone lately
        said.recent[:], said.shares[:] = 1e-6, (0.01, 0.33, 0.33, 0.33)
        said.recent[:, text[position]] = 1
    cut = stream.copy()
    cut.cut()
    foretold, answer = stream.predict(image), stream.step(image)
    assert answer.label == text[position] != plain.step(image).label
    assert np.array_equal(foretold.probabilities, cut.step(image).probabilities), "after a cut there are no runs"
    assert "The text's answer was given" in stream.why(position)
    assert "answer" not in plain.why(position)
    assert stream.health().runs > 0.9
    assert plain.health().runs == 0


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
    stream.run(images[40:400])
    gone = next(position for position in range(400) if not any(position in b.sources for b in stream.state.banks()))
    held = name == "keel"  # by the memory, which has all images so far
    assert stream.correct(gone, 0) == held, "an image that no cache holds"
    assert stream.correct(gone, 0, images[gone]) == held
    assert gone in bank.sources[0]


@pytest.mark.parametrize("name", ["mcp", "keel"])
@pytest.mark.parametrize("later", [0, 4 * DIARY])
def test_forgetting_a_source_reaches_what_a_guard_refused_and_a_human_corrected(name, later, cones, tmp_path):
    task, images, _, _ = cones
    stream = make_method(name).start(task, Guard())
    stream.run(images[:40])
    stream.step(images[0], source="mallory")
    stream.step(images[1], source="alice")
    assert "near-duplicate" in stream.why(40)
    assert "near-duplicate" in stream.why(41)
    stream.correct(40, 1, images[0])
    stream.correct(41, 2, images[1])
    assert {40, 41} <= stream.state.positions()
    flood = np.repeat(images[2:3], later, axis=0)  # of refused images, whose sender is not what is looked for
    stream.run(flood, sources=["bob"] * later)
    stream.save(tmp_path / "state")
    stream = Stream.load(tmp_path / "state", task)
    assert stream.forget("mallory") >= 1
    assert 40 not in stream.state.positions()
    assert 41 in stream.state.positions(), "somebody else sent it"
    assert stream.forget("mallory") == 0


def test_a_flood_of_refused_images_does_not_hide_what_its_source_taught(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard(contradicted=0))
    stream.run(images[:40], sources=["mallory"] * 40)
    held = stream.state.positions()
    assert held
    stream.run(np.repeat(images[:1], LOG, axis=0), sources=["mallory"] * LOG, keep_parts=False)
    assert stream.state.positions() == held
    assert stream.forget("mallory") >= len(held)
    assert not stream.state.positions()


def test_corrections_that_cannot_be_are_refused(cones):
    task, images, _, _ = cones
    stream = MCP().start(task, Guard())
    with pytest.raises(TrimtabError, match="below 6"):
        stream.correct(0, 6)
    moving = make_method("dpe").start(task, Guard())
    moving.step(images[0])
    with pytest.raises(TrimtabError, match="cannot be corrected"):
        moving.correct(0, 1)
    with pytest.raises(TrimtabError, match="watches itself"):
        MCP().start(task).health()


def test_a_classifier_can_say_none_of_these():
    classifier = Classifier(ColorEncoder(), ["red", "green"], unknown="auto")
    assert classifier.stream.guard == Guard(unknown=True)
    with pytest.raises(TrimtabError, match="leave guard on"):
        Classifier(ColorEncoder(), ["red", "green"], unknown="auto", guard=False)
    with pytest.raises(TrimtabError, match="unknown must be"):
        Classifier(ColorEncoder(), ["red", "green"], unknown="yes")


def test_what_was_let_go_of_or_corrected_does_not_come_back_with_a_snapshot(cones):
    task, images, _, _ = cones
    whole = MCP().start(task, Guard(snapshots=2, quota=0))
    whole.run(images[: EVERY + 20], sources=["good", "bad"] * (EVERY // 2 + 10))
    assert whole.good.taken.max() == EVERY
    assert whole.forget("nobody") == 0
    assert whole.good.taken.max() == EVERY, "nothing that it holds was let go of"
    held = min(whole.state.positions())
    for let_go in (lambda s: s.forget("bad"), lambda s: s.evict(held), lambda s: s.correct(held, 0)):
        stream = whole.copy()
        let_go(stream)
        assert stream.good.taken.max() == -1
        kept = stream.arrays()["good.state.caches.bank.features"]
        assert not kept.any(), "it is not saved either"


def test_the_guard_keeps_what_somebody_has_corrected(cones):
    """Neighbors contradict just those images that a human had to correct."""
    task, images, _, _ = cones
    stream = MCP().start(task, Guard(contradicted=1))
    stream.run(images[:100])
    (bank,) = stream.state.banks()
    corrected = {}
    for position in range(0, 100, 20):
        corrected[position] = (int(stream.predict(images[position]).label) + 1) % task.classes
        stream.correct(position, corrected[position], images[position])
    stream.run(images[100:])
    assert all(position in bank.sources[label] for position, label in corrected.items())
    strange = np.array([0, 3, 20])
    assert without_corrected(strange, stream.state).tolist() == [3]


def test_corrections_of_one_class_take_the_places_of_others_not_of_each_other(cones):
    task, images, _, _ = cones
    for method in (MCP(entropy_slots=3), MCP(entropy_slots=0, align_slots=3)):
        stream = method.start(task)
        stream.run(images[:60])
        for position in range(4):
            stream.correct(position, 2, images[position])
        (bank,) = stream.state.banks()
        assert {1, 2, 3} <= set(bank.sources[2].tolist()), "the last three, in three slots"
