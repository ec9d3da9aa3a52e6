"""What was just there: it helps where images come in runs, and is silent where they do not."""

import numpy as np
import pytest

import oracle.context
from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab import MCP, Keel, Stream, Task
from trimtab.fusion.auto import AutoWeights
from trimtab.fusion.context import LONGEST, Context, expect, learn_context
from trimtab.fusion.foretelling import ALL, TEXT
from trimtab.fusion.loudness import AS_WITHOUT


@pytest.fixture(scope="module")
def images():
    """A task, and features of 900 images in no order with their labels."""
    features, labels, text = make_features(12, 64, 1, 900, seed=4, shape=Shape(agreement=0.5, deceptive=0.1))
    return Task([str(c) for c in range(12)], text, LOGIT_SCALE), features[:, 0], labels


def right(method, task, features, labels):
    return (method.start(task).run(features, keep_parts=False).labels == labels).mean()


def in_runs(labels, length, seed=0):
    """An order in which images of a class come in runs."""
    random = np.random.default_rng(seed)
    runs = [
        np.array_split(random.permutation(found), max(len(found) // length, 1))
        for found in (np.flatnonzero(labels == c) for c in range(labels.max() + 1))
    ]
    every = [run for of_class in runs for run in of_class]
    return np.concatenate([every[i] for i in random.permutation(len(every))])


@pytest.mark.parametrize(("length", "images"), [(1, 400), (6, 400), (60, 400), (6, LONGEST + 300)])
def test_the_context_is_that_of_its_equations(length, images):
    classes, random = 7, np.random.default_rng(length)
    labels = np.repeat(random.integers(classes, size=images // length), length)
    context, plainly, expected = Context(classes), oracle.context.Context(classes), np.empty(classes)
    for seen, label in enumerate(labels):
        said = random.random(classes) ** 2 + (np.arange(classes) == label) * random.random()
        known = min(seen / 200, 1.0)
        expect(context.sums, context.recent, context.shares, known, expected)
        np.testing.assert_allclose(expected, plainly.expected(known), rtol=1e-9)
        learn_context(context.sums, context.recent, context.shares, expected, 3.7 * said, float(seen))
        plainly.learn(said, known)
    np.testing.assert_allclose(context.shares, plainly.shares, rtol=1e-9)


def test_what_stays_is_no_run_after_a_while():
    """Images in no order, of which the text says other things from one day on: at first that looks like a run."""
    classes, random = 6, np.random.default_rng(0)
    context, expected, shares = Context(classes), np.ones(classes), []
    for images, habit in ((3000, [4, 1, 1, 1, 1, 1]), (500, [1, 1, 1, 1, 1, 4]), (12_000, [1, 1, 1, 1, 1, 4])):
        for _ in range(images):
            seen = context.sums.sum()
            expect(context.sums, context.recent, context.shares, 1.0, expected)
            said = random.dirichlet(np.array(habit, float))
            learn_context(context.sums, context.recent, context.shares, expected, said, seen)
        shares.append(context.in_runs)
    assert shares[0] < 0.3 < 0.7 < shares[1]
    assert shares[2] < 0.3


def faintly(labels, classes, lead, seed=0):
    """(N, C): what a text says that hardly knows the classes, and names one of them for most images."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(len(labels), classes)) + lead * (np.arange(classes) == labels[:, None])
    logits[:, 0] += 1.5
    return (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)


def test_caches_have_no_part_in_what_was_just_there():
    """They may call a new class by an old name; the text says what it says."""
    classes, random = 6, np.random.default_rng(2)
    text = faintly(np.repeat(random.integers(classes, size=12), 25), classes, lead=1.0)
    found = []
    for seed in (3, 4):
        retrieval = np.random.default_rng(seed).dirichlet(np.full(classes, 0.2), size=len(text)).astype(np.float32)
        weights = AutoWeights(("text", "retrieval"), classes)
        weights.walk({"text": text, "retrieval": retrieval})
        found.append(weights.context)
    for name, array in found[0].arrays().items():
        np.testing.assert_array_equal(array, found[1].arrays()[name])


def test_a_part_that_only_speaks_louder_takes_little_from_what_was_just_there():
    """A memory that comes weighed and says, louder, what the text says; and one that says nothing changes nothing."""
    classes = 12
    labels = np.repeat(np.random.default_rng(2).integers(classes, size=60), 12)
    text, retrieval = faintly(labels, classes, lead=1.5), faintly(labels, classes, lead=3.0, seed=1)
    loud = text**4 / (text**4).sum(axis=1, keepdims=True)

    def walked(memory, *, quieter=True):
        weights = AutoWeights(("text", "retrieval", "memory"), classes, weighed=("memory",))
        right = 0
        for said, kept, remembered, label in zip(text, retrieval, memory, labels, strict=True):
            if not quieter:
                weights.loudness[AS_WITHOUT] = 0
            right += weights.step({"text": said, "retrieval": kept, "memory": remembered}).argmax() == label
        return right / len(labels), np.exp(weights.loudness[AS_WITHOUT])

    assert walked(np.full_like(text, 1 / classes))[1] == pytest.approx(1, abs=1e-6)
    heard, power = walked(loud)
    assert power < 0.3
    assert heard > walked(loud, quieter=False)[0] + 0.04


def test_a_second_class_is_not_taken_for_one_that_was_never_named():
    """After one class alone, a name that it never got is unusual for no other reason."""
    classes = 5
    first, second = np.array([3.0, 1.5, -2.0, 0.0, 0.0]), np.array([0.0, 2.6, 2.2, 0.0, 0.0])
    logits = np.repeat([first, second], 300, axis=0) + np.random.default_rng(0).normal(size=(600, classes))
    text = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    even = np.full_like(text, 1 / classes)
    answers = AutoWeights(("text", "retrieval"), classes).walk({"text": text, "retrieval": even}).argmax(axis=1)
    right, by_text = ((each == 1)[300:350].mean() for each in (answers, text.argmax(axis=1)))
    assert by_text < 0.65
    assert right > by_text - 0.05


def test_a_text_that_names_one_class_is_no_run():
    """Shuffled images, most of which get one name: as nothing unusual is foretold, nothing comes in runs."""
    labels = np.random.default_rng(0).integers(6, size=500)
    text = faintly(labels, 6, lead=1.0)
    text[:, 0] *= 6
    text /= text.sum(axis=1, keepdims=True)
    weights = AutoWeights(("text", "retrieval"), 6)
    answers = weights.walk({"text": text, "retrieval": np.full_like(text, 1 / 6)})
    assert (text.argmax(axis=1) == 0).mean() > 0.85
    assert weights.report()["context"] < 0.4
    assert (answers.argmax(axis=1) == 0).mean() < (text.argmax(axis=1) == 0).mean() + 0.05


@pytest.mark.parametrize("method", [MCP, Keel], ids=["mcp", "keel"])
def test_runs_are_noticed_and_used_and_no_order_is_left_alone(images, method):
    task, features, labels = images
    shuffled = np.random.default_rng(1).permutation(len(labels))
    for order, least, most in ((in_runs(labels, 25), 0.04, 1.0), (shuffled, -0.01, 0.01)):
        with_order = right(method(), task, features[order], labels[order])
        without = right(method(fusion="auto-orderless"), task, features[order], labels[order])
        assert least <= with_order - without <= most


def test_the_report_says_how_much_comes_in_runs(images):
    task, features, labels = images
    shares = []
    for order in (in_runs(labels, 40), np.random.default_rng(1).permutation(len(labels))):
        stream = MCP().start(task)
        stream.run(features[order], keep_parts=False)
        shares.append(stream.fusion_report()["context"])
    assert shares[0] > 0.7
    assert shares[1] < 0.3


def test_a_cut_makes_the_next_image_one_from_anywhere(images):
    task, features, labels = images
    order = in_runs(labels, 40)
    stream = Keel().start(task)
    stream.run(features[order[:600]], keep_parts=False)
    other = features[np.flatnonzero(labels != labels[order[599]])[5]]
    asked = stream.predict(other).probabilities
    cut = stream.copy()
    cut.cut()
    np.testing.assert_allclose(cut.step(other).probabilities, asked, atol=1e-5)
    assert np.abs(stream.step(other).probabilities - asked).max() > 0.01


def test_a_saved_stream_remembers_what_was_just_there(images, tmp_path):
    task, features, labels = images
    order = in_runs(labels, 40)
    stream = Keel().start(task)
    stream.run(features[order[:300]], keep_parts=False)
    stream.save(tmp_path / "stream.safetensors")
    again = Stream.load(tmp_path / "stream.safetensors", task)
    left, later = (s.run(features[order[300:400]]).probabilities for s in (stream, again))
    np.testing.assert_array_equal(left, later)


def tell(fusion, usual, text=1.0, everything=1.0):
    """Let a stream know how much comes as usual, and how clearly runs show in the text and in everything."""
    fusion.context.shares[:] = usual, *(3 * [(1 - usual) / 3])
    fusion.names.figures[[TEXT, ALL]] = text, everything


def test_parts_that_hold_images_speak_less_in_a_run(images):
    """Beside the text; the same stream with the same trust, told that there are runs and that there are none."""
    task, features, _ = images
    stream = MCP().start(task)
    stream.run(features[:300], keep_parts=False)
    forces = []
    for usual in (0.99, 0.7):
        tell(stream.fusion, usual)
        report = stream.fusion_report()
        forces.append(report["prototype"] / report["text"])
    assert report["held"] == pytest.approx(0.5)
    assert forces[1] == pytest.approx(forces[0] / 2, rel=0.02)  # the sharpness of the text is added to its force


@pytest.mark.parametrize(
    ("usual", "everything", "power"), [(0.99, 1.0, 1.0), (0.7, 1.0, 0.5), (0.1, 1.0, 0), (0.1, 2.0, 1)]
)
def test_a_part_that_comes_weighed_counts_less_in_a_run(usual, everything, power):
    even, memory = np.full(4, 0.25, np.float32), np.array([0.7, 0.1, 0.1, 0.1], np.float32)
    weights = AutoWeights(("text", "retrieval", "memory"), 4, weighed=("memory",))
    tell(weights, usual, everything=everything)
    answer = weights.combine({"text": even, "retrieval": even, "memory": memory})
    np.testing.assert_allclose(answer, memory**power / (memory**power).sum(), rtol=1e-5)


@pytest.mark.parametrize("method", [MCP, Keel])
@pytest.mark.parametrize("usual", [0.99, 0.1])
def test_a_stream_weighs_its_next_image_as_one_that_is_asked_about(images, usual, method):
    """In a run and in none, the compiled walk and a single answer agree on what caches count."""
    task, features, _ = images
    stream = method().start(task)
    parts = stream.run(features[:300]).parts
    tell(stream.fusion, usual, everything=1.15)
    last = {name: part[-1] for name, part in parts.items()}
    asked = stream.fusion.combine(last, comes_next=True)
    np.testing.assert_allclose(stream.fusion.step(last), asked, atol=1e-6)
