"""Keel: the whitened memory against a plain twin, what it must not depend on, and what it must notice."""

import numpy as np
import pytest

from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from oracle.keel import Fit, folded, run_whitened
from trimtab import MCP, Keel, Stream, Task, TrimtabError
from trimtab.engine.equations import softmax
from trimtab.engine.few_classes import across, gathered
from trimtab.engine.relations import Relations
from trimtab.engine.roots import times_inverse
from trimtab.engine.stretches import Stretches, unfolded
from trimtab.engine.stretches import folded as narrowed
from trimtab.engine.whitened import _next_fit
from trimtab.engine.whitening import NO_ANSWER, fit_classes
from trimtab.study.metrics import score

TEMPERED = MCP()  # the MCP inside Keel, which finds its logit scale


@pytest.fixture(scope="module")
def clip_like():
    """Features as CLIP makes them: class means off the texts, and much that all images share."""
    features, labels, text = make_features(19, 96, 1, 900, seed=3, shape=Shape(agreement=0.5, deceptive=0.1))
    return Task([str(c) for c in range(19)], text, LOGIT_SCALE), features[:, 0], labels


def tempered_logits(task, features):
    """The logits that Keel's text has, image by image."""
    stream = TEMPERED.start(task)
    logits = []
    for feature in features:
        block = stream.method.look(task, feature[None, None], stream.seen, None)
        stream.state.open(block)
        logits.append(block.logits[0].copy())
        stream.step(feature)
    return np.array(logits)


@pytest.mark.parametrize("memory_slots", [200, 2048])
def test_the_memory_equals_the_plain_twin(clip_like, memory_slots):
    task, features, _ = clip_like
    features = features[:450]
    parts = Keel(memory_slots=memory_slots).start(task).run(features).parts
    witnesses = np.stack([parts[name].argmax(axis=1) for name in ("prototype", "retrieval")], axis=1)
    logits = tempered_logits(task, features)
    expected = run_whitened(features, task.text_prototypes, logits, witnesses, memory_slots=memory_slots)
    assert np.ptp(expected[100:], axis=1).max() > 0.1, "the memory must have spoken"
    np.testing.assert_allclose(parts["whitened"], expected, atol=2e-3)


@pytest.mark.parametrize(
    ("seen", "slots", "expected"),
    [(3, 2048, 4), (100, 2048, 130), (1700, 2048, 2048), (2048, 2048, 2560), (5120, 2048, 6144), (500, 200, 600)],
)
def test_a_fit_waits_for_growth_but_no_longer_than_half_a_turn_of_the_memory(seen, slots, expected):
    assert _next_fit(seen, slots) == expected


def test_wide_features_are_folded():
    features, _, text = make_features(6, 1300, 1, 400, seed=5, shape=Shape(agreement=0.5))
    memory = features[:, 0]
    narrow = np.array([folded(x, 320) for x in memory.astype(np.float64)], np.float32)
    seen = Stretches(memory, text).seen(400)
    np.testing.assert_allclose(seen.images, narrow, atol=1e-6)
    found = fit_classes(seen, 1.5, np.full(400, NO_ANSWER), Relations(text))
    scores, plain = memory @ unfolded(found.weights, 1300).T, narrow @ found.weights.T
    assert np.ptp(plain, axis=1).max() > 1, "the memory must have something to say"
    np.testing.assert_allclose(scores, plain, atol=1e-3)


@pytest.mark.parametrize(("dim", "classes"), [(96, 12), (96, 120), (600, 12)])
def test_what_is_kept_between_fits_changes_no_bit(dim, classes):
    features, _, text = make_features(classes, dim, 1, 1700, seed=6)
    ring, rng = features[:1300, 0].copy(), np.random.default_rng(0)
    kept = Stretches(ring, text)
    kept.seen(700)
    for images in (1000, 1300, 1300):
        first = int(rng.integers(600, 1250))
        others = features[rng.integers(1300, 1700, 50), 0]
        kept.write(first, others, narrowed(others))
        for found, expected in zip(kept.seen(images), Stretches(ring, text).seen(images), strict=True):
            np.testing.assert_array_equal(found, expected)
    centered = kept.seen(1300).images.astype(np.float64)
    centered -= centered.mean(axis=0)
    np.testing.assert_allclose(kept.seen(1300).scatter, centered.T @ centered, atol=1e-3)
    ring[:] = features[200:1500, 0]
    kept.doubt()
    np.testing.assert_array_equal(kept.seen(1300).scatter, Stretches(ring, text).seen(1300).scatter)


@pytest.mark.parametrize("classes", [1, 10, 60, 61])
@pytest.mark.parametrize("images", [1, 119, 1000])
def test_products_by_pieces_are_products(classes, images):
    rng = np.random.default_rng(7)
    rows, some = rng.normal(size=(classes, 330)).astype(np.float32), rng.normal(size=(images, 330)).astype(np.float32)
    shares = rng.random((classes, images), np.float32)
    np.testing.assert_allclose(across(rows, some), rows @ some.T, atol=1e-3)
    np.testing.assert_allclose(gathered(shares, some), shares @ some, atol=1e-3)
    root = np.tril(rng.normal(size=(330, 330))).astype(np.float32)
    expected = rows.astype(np.float64) @ root.T.astype(np.float64) @ root.astype(np.float64)
    np.testing.assert_allclose(times_inverse(rows, root), expected, atol=1e-2)


@pytest.mark.parametrize("images", [60, 400])
def test_a_human_answer_is_believed_as_in_the_plain_twin(clip_like, images):
    task, features, labels = clip_like
    memory, rng = features[:images].reshape(images, -1), np.random.default_rng(3)
    told = {int(row): int(labels[row]) for row in rng.permutation(images)[:30]}
    answers = np.full(images, NO_ANSWER)
    answers[list(told)] = list(told.values())
    text = task.text_prototypes
    found = fit_classes(Stretches(memory, text).seen(images), 1.5, answers, Relations(text))
    twin = Fit(memory.astype(np.float64), task.text_prototypes.astype(np.float64), 1.5, told)
    new = features[400:450].reshape(50, -1)
    expected = np.array([twin.scores(x) for x in new.astype(np.float64)])
    untold = Fit(memory.astype(np.float64), task.text_prototypes.astype(np.float64), 1.5)
    assert np.abs(expected - np.array([untold.scores(x) for x in new.astype(np.float64)])).max() > 0.1
    np.testing.assert_allclose(new @ found.weights.T + found.offsets, expected, atol=5e-3)


def test_a_correction_reaches_the_memory_and_goes_with_its_image(clip_like, tmp_path):
    task, features, labels = clip_like
    stream = Keel(memory_slots=64).start(task)
    stream.run(features[:60])
    memory, before = stream.state.memory, stream.state.memory.weights.copy()
    wrong = next(k for k in range(60) if (features[k].reshape(-1) @ task.text_prototypes.T).argmax() != labels[k])
    assert stream.correct(wrong, int(labels[wrong])) >= 1
    assert memory.answers[wrong] == labels[wrong]
    assert (memory.answers != NO_ANSWER).sum() == 1
    assert not np.array_equal(memory.weights, before), "the classes are fitted with what was said"
    stream.save(tmp_path / "state")
    again = Stream.load(tmp_path / "state", task)
    np.testing.assert_array_equal(again.state.memory.answers, memory.answers)
    kept = memory.answers.copy()
    for image in features[60:63]:
        stream.predict(image)
    np.testing.assert_array_equal(memory.answers, kept)
    stream.run(features[60:140])  # the ring goes round
    assert (memory.answers == NO_ANSWER).all()


def test_the_first_parts_are_mcps(clip_like):
    task, features, _ = clip_like
    keel, mcp = Keel().start(task).run(features[:200]).parts, TEMPERED.start(task).run(features[:200]).parts
    for name in MCP.parts:
        np.testing.assert_array_equal(keel[name], mcp[name])


def test_it_is_better_than_the_text_and_than_mcp(clip_like):
    task, features, labels = clip_like
    right = {
        name: (method.start(task).run(features).labels == labels).mean()
        for name, method in (("keel", Keel()), ("mcp", TEMPERED))
    }
    text = ((features @ task.text_prototypes.T).argmax(axis=1) == labels).mean()
    assert right["keel"] > right["mcp"] + 0.02
    assert right["mcp"] > text + 0.05


@pytest.mark.parametrize("method", [TEMPERED, Keel()], ids=["mcp", "keel"])
def test_the_stated_logit_scale_changes_no_answer_but_how_sure_it_is(clip_like, method):
    task, features, _ = clip_like
    shy, sure = (
        method.start(Task(task.class_names, task.text_prototypes, scale)).run(features[:300]) for scale in (25.0, 150.0)
    )
    np.testing.assert_array_equal(shy.labels, sure.labels)
    for name, part in shy.parts.items():
        np.testing.assert_array_equal(part, sure.parts[name])
    assert shy.probabilities[200:].max(axis=1).mean() < sure.probabilities[200:].max(axis=1).mean() - 0.1


@pytest.mark.parametrize("method", [TEMPERED, Keel()], ids=["mcp", "keel"])
def test_answers_are_better_calibrated_than_the_text(clip_like, method):
    task, features, labels = clip_like
    for scale in (LOGIT_SCALE, 150.0):
        stated = Task(task.class_names, task.text_prototypes, scale)
        text = softmax(np.float32(scale) * (features @ task.text_prototypes.T))
        answers = method.start(stated).run(features).probabilities
        assert score(answers, labels).ece < score(text, labels).ece


def test_the_papers_form_takes_the_scale_that_is_given(clip_like):
    task, features, _ = clip_like
    blunt = Task(task.class_names, task.text_prototypes, 25.0)
    sharp, blunted = (MCP.paper().start(t).run(features[:50]).parts["text"].max(axis=1).mean() for t in (task, blunt))
    assert sharp > blunted + 0.1


def test_the_texts_confidence_is_found(clip_like):
    task, features, _ = clip_like
    confidence = TEMPERED.start(task).run(features).parts["text"].max(axis=1)[200:].mean()
    assert confidence == pytest.approx(0.4, abs=0.05)


def test_a_memory_of_noise_stays_silent(clip_like):
    task, _, _ = clip_like
    noise = np.random.default_rng(0).normal(size=(400, task.dim)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    stream = Keel().start(task)
    stream.run(noise)
    memory, reputation = stream.state.memory, stream.state.reputation
    assert memory.reliability.mean() * reputation.trust(memory.agreement) * reputation.witness() < 0.02


def test_classes_that_never_came_are_less_known_to_the_memory(clip_like):
    task, features, labels = clip_like
    stream = Keel().start(task)
    stream.run(features[labels < 9][:300])
    reliability = stream.state.memory.reliability
    assert reliability[:9].mean() > 1.5 * reliability[9:].mean()


def test_a_state_goes_on_where_it_was_saved(clip_like, tmp_path):
    task, features, _ = clip_like
    whole = Keel(memory_slots=64).start(task).run(features[:300]).probabilities
    stream = Keel(memory_slots=64).start(task)
    stream.run(features[:150])
    stream.save(tmp_path / "state.safetensors")
    rest = Stream.load(tmp_path / "state.safetensors", task).run(features[150:300]).probabilities
    np.testing.assert_allclose(rest, whole[150:], atol=1e-5)


def test_a_memory_too_small_is_refused():
    with pytest.raises(TrimtabError, match="memory_slots must be a whole number of at least 64"):
        Keel(memory_slots=10)


def test_a_camera_that_shows_one_picture_breaks_nothing(clip_like):
    """No covariance at all, then images again."""
    task, features, _ = clip_like
    still = np.repeat(features[:1], 100, axis=0)
    assert np.isfinite(Keel().start(task).run(np.concatenate([still, features[:100]])).probabilities).all()


def test_a_strong_text_tells_how_often_classes_come():
    """As in the plain twin; a class that comes often is then expected more than one that does not."""
    rng = np.random.default_rng(8)
    text = rng.normal(size=(8, 48))
    text = (text / np.linalg.norm(text, axis=1, keepdims=True)).astype(np.float32)
    labels = np.concatenate([np.zeros(200, int), rng.integers(1, 8, 200)])
    memory = text[labels] + 0.13 * rng.normal(size=(400, 48))
    memory = (memory / np.linalg.norm(memory, axis=1, keepdims=True)).astype(np.float32)
    found = fit_classes(Stretches(memory, text).seen(400), 1.5, np.full(400, NO_ANSWER), Relations(text))
    twin = Fit(memory.astype(np.float64), text.astype(np.float64), 1.5)
    assert twin.known > 0.5
    assert twin.common[0] > twin.common[1:].max() + 0.5
    new = memory[rng.permutation(400)[:50]] + np.float32(0.02)
    expected = np.array([twin.scores(x) for x in new.astype(np.float64)])
    np.testing.assert_allclose(new @ found.weights.T + found.offsets, expected, atol=5e-3)
