"""The guard: what is refused and why, sources, quotas, forgetting, and that all of it is saved."""

import numpy as np
import pytest

from trimtab import MCP, Guard, Stream, TrimtabError, make_method
from trimtab.checks import random_stream
from trimtab.engine.arrays import unit_rows
from trimtab.guard.judging import GAPLESS, _three_highest
from trimtab.guard.sources import source_numbers
from trimtab.guard.verdicts import BEYOND, Verdict
from trimtab.task import Task
from two_cones import two_cones


@pytest.fixture(scope="module")
def cones():
    return two_cones(400)[:3]


def verdicts(stream: Stream) -> list[int]:
    return stream.watch.verdicts[: stream.seen].tolist()


def crafted(task: Task, images, labels, count: int):
    targets = (labels[:count] + 1) % task.classes
    return unit_rows(images[:count] + 1.5 * task.text_prototypes[targets])


def test_a_clean_stream_is_answered_as_without_a_guard(cones):
    task, images, _ = cones
    guarded = MCP().start(task, Guard(contradicted=0, start_over=0))
    found = guarded.run(images)
    assert set(verdicts(guarded)) == {Verdict.LEARNED}
    assert np.array_equal(found.probabilities, MCP().start(task).run(images).probabilities)


@pytest.mark.parametrize("count", [3, 4, 17, 128])
def test_the_three_nearest(count):
    for seed in range(20):
        random = np.random.default_rng(seed)
        for values in (random.integers(-3, 3, count), random.normal(size=count)):
            cosines = values.astype(np.float32)
            expected = np.argsort(-cosines, kind="stable")[:3]  # of equals, the first
            assert _three_highest(cosines, np.empty(count, np.int64)) == tuple(expected)


def test_weak_blends_are_seen_by_their_neighbors():
    """Text that is mixed into an image leaves it among images of what it shows, and those are far from that text."""
    random = np.random.default_rng(0)
    text, centers = unit_rows(random.normal(size=(8, 256))), unit_rows(random.normal(size=(8, 256)))
    common, labels = unit_rows(random.normal(size=256)), random.integers(8, size=600)
    own = np.where(labels < 4, 0.3, 0.1)[:, None]  # half of the classes are usually far from their texts
    noise = 0.6 * unit_rows(random.normal(size=(600, 256)))
    images = unit_rows(common + centers[labels] + own * text[labels] + noise)
    weak = np.arange(200, 600, 10)
    weak = weak[labels[weak] > 3]
    images[weak] = unit_rows(images[weak] + 0.3 * text[(labels[weak] + 1 + np.arange(len(weak)) % 7) % 8])
    stream = MCP().start(Task(list("abcdefgh"), text, 30.0), Guard(gap=0.0))
    stream.run(images)
    assert (stream.watch.details[weak, BEYOND] < 4).all(), "no nearer to texts than others"
    refused = np.array(verdicts(stream)) == Verdict.STRANGE
    assert refused[weak].all()
    assert refused.sum() <= len(weak) + 3
    assert "than the images next to it (limit 3)" in stream.why(int(weak[0]))


def test_near_duplicates_are_answered_and_not_learned(cones):
    task, images, _ = cones
    stream = MCP().start(task, Guard())
    stream.run(images[:50])
    again = unit_rows(images[10] + 1e-3 * images[60])
    before = {name: array.copy() for name, array in stream.state.arrays().items()}
    stream.cut()
    foretold = stream.predict(again)
    answer = stream.step(again)
    assert np.array_equal(answer.probabilities, foretold.probabilities)
    assert "near-duplicate" in stream.why(50)
    for name, array in stream.state.arrays().items():
        assert np.array_equal(array, before[name]), name


def test_text_mixed_into_an_image_is_refused_from_the_second_image_on(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard())
    stream.run(np.concatenate([images[:1], crafted(task, images[1:], labels[1:], 40)]))
    assert verdicts(stream)[1:] == [Verdict.STRANGE] * 40
    assert "deviations" in stream.why(5)
    stream.run(images[100:200])
    assert verdicts(stream)[41:].count(Verdict.LEARNED) >= 95, "clean images are learned as soon as they come"


def test_deviations_are_seen_without_the_gap(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard(gap=0.0))
    stream.run(images[:100])
    stream.run(crafted(task, images[100:], labels[100:], 20))
    assert verdicts(stream)[100:] == [Verdict.STRANGE] * 20


def test_a_flood_of_equal_images_does_not_make_it_blind(cones):
    task, images, labels = cones
    random = np.random.default_rng(1)
    flood = unit_rows(images[0] + 1e-3 * unit_rows(random.normal(size=(200, images.shape[1]))))
    stream = MCP().start(task, Guard(gap=0.0))
    stream.run(np.concatenate([flood, images[:64]]))
    assert verdicts(stream)[1:200] == [Verdict.DUPLICATE] * 199
    assert verdicts(stream)[200:].count(Verdict.LEARNED) > 55, "clean images are not taken for strange after a flood"
    stream.run(crafted(task, images[100:], labels[100:], 20))
    assert verdicts(stream)[264:].count(Verdict.STRANGE) == 20


def test_a_poisoned_start_is_forgotten(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard(gap=0.0))
    stream.run(crafted(task, images, labels, 60))
    assert Verdict.STRANGE not in verdicts(stream)[:16], "nothing to compare with yet"
    stream.run(images[60:300])
    assert stream.watch.events[0] >= 1
    assert (stream.state.caches.bank.sources[stream.state.caches.bank.sources >= 0] >= 60).all()


def test_an_encoder_without_a_gap_is_recognized():
    task, features = random_stream(classes=5, dim=24, views=1, images=700, seed=1)
    near_texts = unit_rows(features + 0.8 * task.text_prototypes[np.arange(700) % 5][:, None])
    stream = MCP().start(task, Guard(strange=0.0, start_over=0.0))
    stream.run(near_texts)
    found = np.array(verdicts(stream))
    assert (found[:400] == Verdict.STRANGE).mean() > 0.5
    assert not (found[-50:] == Verdict.STRANGE).any()


def test_images_that_are_refused_say_nothing_of_the_texts_scale(cones):
    task, images, labels = cones
    poisoned, clean = MCP().start(task, Guard()), MCP().start(task, Guard())
    poisoned.run(np.concatenate([images[:1], crafted(task, images[1:], labels[1:], 40)]))
    clean.run(images[:1])
    assert verdicts(poisoned)[1:] == [Verdict.STRANGE] * 40
    scales = [stream.state.temper.figures for stream in (poisoned, clean)]
    assert np.allclose(*scales, rtol=1e-6)
    alone = MCP().start(task, Guard())  # as steps, too
    for image in np.concatenate([images[:1], crafted(task, images[1:], labels[1:], 40)]):
        alone.step(image)
    assert np.allclose(alone.state.temper.figures, scales[0], rtol=1e-6)


def test_what_would_not_be_learned_now_loses_its_place(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard(gap=0.0, contradicted=0))
    begin = np.concatenate([crafted(task, images, labels, 12), images[12:52]])  # too few images to know them by
    stream.run(begin)
    early = {position for position in range(12) if verdicts(stream)[position] == Verdict.LEARNED}
    assert early & stream.state.positions()
    stream.run(images[100:250])
    assert stream.health().restarts == 0, "they are too few to forget everything"
    assert not early & stream.state.positions()
    assert np.isinf(stream.watch.admission.record).all(axis=1).sum() >= len(early)


def test_starting_over_forgets_what_was_heard_among_crafted_images(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard(gap=0.0))
    stream.run(crafted(task, images, labels, 128))
    heard = stream.watch.runs.figures.copy()
    assert heard[0] > 0
    stream.watch.admission.counts[GAPLESS] = 512
    stream.run(images[128:320])
    assert stream.health().restarts == 1
    assert stream.watch.runs.figures[0] < 192
    assert stream.watch.admission.counts[GAPLESS] < 512


@pytest.mark.parametrize("cameras", [1, 2, 3])
def test_few_sources_have_equal_shares_once_it_shows_that_there_are_no_others(cones, cameras):
    task, images, _ = cones
    stream = MCP().start(task, Guard(quota=0.25, duplicates=0.0, strange=0.0, gap=0.0))
    stream.run(images[:380], sources=[f"camera {k % cameras}" for k in range(380)])
    until = 64 * cameras
    assert verdicts(stream)[:256] == [Verdict.LEARNED] * until + [Verdict.QUOTA] * (256 - until)
    assert verdicts(stream)[256:380] == [Verdict.LEARNED] * 124


def test_one_source_among_unnamed_images_keeps_its_quota(cones):
    task, images, _ = cones
    stream = MCP().start(task, Guard(quota=0.25, duplicates=0.0, strange=0.0, gap=0.0))
    stream.run(images[:400], sources=[None if k % 4 == 0 else "mallory" for k in range(400)])
    learned = np.array(verdicts(stream)[:400]) == Verdict.LEARNED
    from_mallory = np.arange(400) % 4 != 0
    assert learned[~from_mallory].all()
    assert 64 <= (learned & from_mallory)[144:400].sum() <= 65


def test_a_source_has_a_quota_and_can_be_forgotten(cones):
    task, images, _ = cones
    stream = MCP().start(task, Guard(quota=0.1))
    stream.run(images[:60], sources=["mallory"] * 60)
    assert verdicts(stream)[:26] == [Verdict.LEARNED] * 26
    assert verdicts(stream)[26:] == [Verdict.QUOTA] * 34
    stream.run(images[60:160], sources=[None] * 100)
    bank = stream.state.caches.bank
    held = set(bank.sources[bank.sources >= 0].tolist())
    assert held & set(range(26))
    count = stream.forget("mallory")
    assert count >= len(held & set(range(26)))
    assert not set(bank.sources[bank.sources >= 0].tolist()) & set(range(60))
    assert stream.forget("nobody") == 0
    np.testing.assert_allclose(bank.gram, np.einsum("ckd,cld->ckl", bank.features, bank.features), atol=1e-5)
    stream.run(images[160:200])


@pytest.mark.parametrize("name", ["tda", "dmn", "boostadapter", "mcp", "mcp_plus", "keel"])
def test_what_is_forgotten_was_never_there(name, cones):
    """A stream that forgets a source answers as one whose caches never held it, wherever there is room for all."""
    task, images, _ = cones
    own = [None, "other"] * 6
    stream = make_method(name).start(task, Guard())
    stream.run(images[:12], sources=own)
    stream.forget("other")
    for bank in stream.state.banks():
        assert set(bank.sources[bank.sources >= 0].tolist()) <= set(range(0, 12, 2))
        for section, span in bank.sections.items():
            for label in range(task.classes):
                used = bank.count(section, label)
                assert bank.occupied[label, span][:used].all(), "sections are filled from their first slot on"
    again = stream.copy()
    assert np.array_equal(stream.run(images[20:60]).probabilities, again.run(images[20:60]).probabilities)


def test_a_method_that_cannot_tell_says_so(cones):
    task, images, _ = cones
    stream = make_method("dpe").start(task, Guard())
    stream.run(images[:10], sources=["a"] * 10)
    with pytest.raises(TrimtabError, match="dpe does not keep which image"):
        stream.forget("a")
    with pytest.raises(TrimtabError, match="guard"):
        MCP().start(task).forget("a")
    for wrong in (["a"], 3, "ten letters"):
        with pytest.raises(TrimtabError, match="sources must name"):
            stream.run(images[:10], sources=wrong)


def test_a_guard_is_saved_with_the_state(cones, tmp_path):
    task, images, labels = cones
    mixed = np.concatenate([images[:100], crafted(task, images[100:], labels[100:], 30), images[130:170]])
    stream = MCP().start(task, Guard(strange=3.5))
    stream.run(mixed[:110], sources=["a"] * 110)
    stream.save(tmp_path / "state")
    loaded = Stream.load(tmp_path / "state", task)
    assert loaded.guard == Guard(strange=3.5)
    assert np.array_equal(stream.run(mixed[110:]).probabilities, loaded.run(mixed[110:]).probabilities)
    for name, array in stream.arrays().items():
        assert np.array_equal(array, loaded.arrays()[name]), name


def test_a_run_that_is_broken_off_judges_only_what_it_took_in(cones):
    task, images, labels = cones
    mixed = images[:60].copy()
    mixed[1::5] = crafted(task, images[1::5], labels[1::5], 12)
    method = MCP(order="predict_first")  # one that is stepped image by image: a walk answers a block at once
    stream, whole = method.start(task, Guard()), method.start(task, Guard())
    walk = stream._walk(mixed[:, None], np.full(len(mixed), -1))
    for _ in range(25):
        next(walk)
    walk.close()
    assert stream.seen == 25
    whole.run(mixed[:25])
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(array, stream.arrays()[name], atol=1e-4, err_msg=name)  # blocks round


def test_a_run_that_is_broken_off_counts_only_the_sources_that_it_took_in(cones):
    task, images, _ = cones
    method, guard = MCP(order="predict_first"), Guard(quota=0.05, duplicates=0.0, strange=0.0, gap=0.0)
    stream, whole = method.start(task, guard), method.start(task, guard)
    cameras = [f"camera {k % 3}" for k in range(160)]
    for each in (stream, whole):
        each.run(images[:60], sources=cameras[:60])
    walk = stream._walk(images[60:160, None], source_numbers(cameras[60:160], 100))
    for _ in range(25):
        next(walk)
    walk.close()
    whole.run(images[60:85], sources=cameras[60:85])
    assert whole.health().refused["quota"] > 20
    np.testing.assert_array_equal(stream.watch.admission.origins, whole.watch.admission.origins)
    assert verdicts(stream) == verdicts(whole)


def test_a_quota_judges_steps_as_it_judges_a_run(cones):
    task, images, _ = cones
    guard = Guard(quota=0.1, duplicates=0.0, strange=0.0, gap=0.0)
    run, steps = MCP().start(task, guard), MCP().start(task, guard)
    cameras = [f"camera {k % 5 % 3}" for k in range(380)]
    run.run(images[:380], sources=cameras)
    for image, camera in zip(images[:380], cameras, strict=True):
        steps.step(image, source=camera)
    assert verdicts(run) == verdicts(steps)
    np.testing.assert_array_equal(run.watch.admission.origins, steps.watch.admission.origins)


def test_items_that_neighbors_contradict_lose_their_place(cones):
    task, images, labels = cones
    stream = MCP().start(task, Guard(gap=0.0, strange=0.0))
    stream.run(images[:250])
    bank, among_ones = stream.state.caches.bank, unit_rows(images[labels == 1].mean(axis=0))
    bank.rows.features[bank.rows.places[4, 1]] = among_ones  # of class 1, held under class 4
    bank.sources[4, 1], bank.scores[4, 1] = 3, 0
    stream.run(images[250:256])
    assert not (bank.features[4] @ among_ones > 0.9999).any()
    assert stream.watch.events[1] >= 1


def test_guards_that_are_no_guards_are_refused(cones):
    task, _, _ = cones
    with pytest.raises(TrimtabError, match="guard"):
        Stream(MCP(), task, guard=3)
    with pytest.raises(TrimtabError, match="strange"):
        Guard(strange=-1)


def test_duplicates_can_be_switched_off():
    """The cosine of equal images may round above 1."""
    task, images = random_stream(classes=7, dim=64, views=1, images=60, seed=0)
    off = Guard(duplicates=0, gap=0, strange=0, quota=0, contradicted=0, start_over=0, fall_back=False)
    stream, by_steps = MCP().start(task, off), MCP().start(task, off)
    stream.run(np.repeat(images, 2, axis=0))
    for image in np.repeat(images, 2, axis=0):
        by_steps.step(image)
    assert set(verdicts(stream)) == set(verdicts(by_steps)) == {Verdict.LEARNED}


@pytest.mark.parametrize("survivors", [0, 1, 15, 30])
def test_a_memory_that_forgets_is_one_that_saw_only_the_others(cones, survivors):
    task, images, _ = cones
    believing = Guard(duplicates=0, gap=0, strange=0, quota=0, contradicted=0, start_over=0)
    stream, other = make_method("keel").start(task, believing), make_method("keel").start(task)
    stream.run(images[:200], sources=["own"] * survivors + ["other"] * (200 - survivors))
    other.run(images[:survivors])
    assert stream.forget("other") >= 200 - survivors
    assert stream.forget("other") == 0
    found, expected = stream.state.memory.arrays(), other.state.memory.arrays()
    for name in ("features", "sources", "answers"):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert stream.state.memory.fitted == other.state.memory.fitted
    if not other.state.memory.fitted:
        assert not found["weights"].any()
    stream.run(images[200:])


@pytest.mark.parametrize("name", ["zero_shot", "zero_vote", "tps"])
def test_a_method_that_keeps_nothing_can_say_that_an_image_shows_no_class(name, tmp_path):
    task, features = random_stream(classes=6, dim=32, views=2, images=300, seed=2)
    away = features.mean(axis=(0, 1)) - 2 * np.asarray(task.text_prototypes).sum(axis=0)
    features[200:210] = away / np.linalg.norm(away)
    method = make_method(name)
    stream, stepped = (method.start(task, Guard(unknown=True)) for _ in range(2))
    found = stream.run(features)
    assert (found.unknown[200:210] > 0.5).all()
    assert found.unknown[64:200].mean() < 0.2
    np.testing.assert_array_equal(found.probabilities, method.start(task).run(features).probabilities)
    for row in range(220):
        looked, taken = stepped.predict(features[row]), stepped.step(features[row])
        assert looked.unknown == taken.unknown == pytest.approx(float(found.unknown[row]), abs=1e-6)
    assert stream.why(205) == "Not learned: it seems to show none of the classes."
    assert stream.health().refused["unknown"] >= 10
    stream.save(tmp_path / "state")
    loaded = Stream.load(tmp_path / "state", task)
    np.testing.assert_array_equal(loaded.run(features).unknown, stream.run(features).unknown)


def test_a_method_that_keeps_nothing_has_nothing_to_guard():
    task, features = random_stream(classes=6, dim=32, views=2, images=3, seed=2)
    stream = make_method("zero_shot").start(task, Guard())
    stream.run(features)
    assert stream.why(2) == "Nothing of it is kept, so nothing is guarded."
    with pytest.raises(TrimtabError, match="zero_shot keeps nothing of the images, so its guard has nothing to watch"):
        stream.health()
