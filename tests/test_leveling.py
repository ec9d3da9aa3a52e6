"""Names on one level: against a plain twin, when nothing may change, and what is gained where names are unequal."""

import numpy as np
import pytest
import torch

from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab import MCP, TDA, Guard, Keel, MCPPlus, Stream, Task
from trimtab.engine.equations import softmax
from trimtab.engine.leveling import TextLevel
from trimtab.engine.residuals import entropy_slopes

CLASSES, IMAGES = 40, 700
METHODS = [MCP(), MCPPlus(), MCPPlus(learning_rate=1e-3), Keel()]


@pytest.fixture(scope="module")
def unequal():
    """Names of which many lie near the middle between all, as a translation from another encoder makes them."""
    features, labels, text = make_features(CLASSES, 64, 1, IMAGES, seed=4, shape=Shape(deceptive=0.05))
    known = np.random.default_rng(0).uniform(-2.2, 0, CLASSES)
    middle = text.mean(axis=0)
    names = middle + np.exp(known)[:, None] * (text - middle)
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    return Task([str(c) for c in range(CLASSES)], names.astype(np.float32), LOGIT_SCALE), features[:, 0], labels


@pytest.fixture(scope="module")
def alike():
    features, labels, text = make_features(CLASSES, 64, 1, IMAGES, seed=4, shape=Shape(deceptive=0.05))
    return Task([str(c) for c in range(CLASSES)], text, LOGIT_SCALE), features[:, 0], labels


def plain_twin(cosines: np.ndarray, said: np.ndarray, stretch: int = 64) -> tuple[np.ndarray, list[float]]:
    """(N, C): each image's leveled cosines, from those before it, and the share found after each stretch."""
    own = cosines - cosines.mean(axis=1, keepdims=True)
    found, shares = cosines.astype(np.float64), []
    for first in range(0, len(cosines), stretch):
        if first:
            seen, others = own[:first].astype(np.float64), 1 - said[:first].astype(np.float64)
            weight = others.sum(axis=0)
            mean = (others * seen).sum(axis=0) / weight
            squares = (others * (seen - mean) ** 2).sum(axis=0)
            usual = squares.sum() / weight.sum()
            loud = np.log(np.sqrt((squares + 20 * usual) / (weight + 20)))
            loud -= loud.mean()
            named = np.bincount(said[:first].argmax(axis=1), minlength=cosines.shape[1]) / first
            classes = np.exp(-sum(share * np.log(share) for share in named if share))
            spread = np.sqrt(max(loud.var() - 0.5 / classes, 0))
            share = 0.5 * np.clip((spread - 0.3) / 0.15, 0, 1)
            shares.append(share)
            if share:
                habit = mean * weight / (weight + 20)
                rows = slice(first, first + stretch)
                found[rows] = (own[rows] - habit) / np.exp(share * loud) + (1 - share) * habit
    return found, shares


def test_it_equals_the_plain_twin(unequal):
    task, features, _ = unequal
    stream, leveled, said = MCP().start(task), [], []
    for first in range(0, IMAGES, 50):  # blocks that end where it suits nobody
        rows = features[first : first + 50]
        for image in rows:
            (block,) = stream._blocks(image[None, None])
            stream.state.open(block)
            leveled.append(block.logits[0] / block.logit_scales[0])
            said.append(block.plain_probabilities[0].copy())
            stream.step(image)
    expected, shares = plain_twin(features @ task.text_prototypes.T, np.array(said))
    assert max(shares) == 0.5, "names must have been found unequal"
    np.testing.assert_allclose(leveled, expected, atol=2e-5)
    assert stream.state.temper.level.share[0] == pytest.approx(shares[-1], abs=1e-4)


def test_what_it_is_worth(unequal):
    task, features, labels = unequal
    zero_shot = 100 * float(((features @ task.text_prototypes.T).argmax(axis=1) == labels).mean())
    plain, leveled = (
        100 * float((MCP(level_names=level).start(task).run(features).labels == labels).mean())
        for level in (False, True)
    )
    assert leveled > plain + 2
    assert leveled > zero_shot + 5


@pytest.mark.parametrize("method", [MCP, MCPPlus])
def test_names_alike_stay_as_they_are_to_the_bit(alike, method):
    task, features, _ = alike
    off, on = (method(level_names=level).start(task).run(features).probabilities for level in (False, True))
    np.testing.assert_array_equal(off, on)


@pytest.mark.parametrize("method", METHODS)
def test_a_report_says_how_far_names_are_leveled(unequal, alike, method):
    for (task, features, _), share in ((unequal, 0.5), (alike, 0.0)):
        stream = method.start(task)
        assert stream.fusion_report()["level"] == 0.0
        stream.run(features)
        assert stream.fusion_report()["level"] == share


@pytest.mark.parametrize("method", [MCP(level_names=False), MCP.paper(), MCP(text_scale="given"), TDA()])
def test_a_report_is_silent_where_no_name_is_ever_leveled(unequal, method):
    task, features, _ = unequal
    stream = method.start(task)
    stream.run(features[:200])
    assert "level" not in stream.fusion_report()


def test_given_weights_leave_the_level_in_the_report(unequal):
    task, features, _ = unequal
    stream = MCP(fusion=(1.0, 1.0, 2.0)).start(task)
    stream.run(features)
    assert stream.fusion_report() == {"text": 0.25, "prototype": 0.25, "retrieval": 0.5, "level": 0.5}


def test_the_papers_form_levels_nothing(unequal):
    task, features, _ = unequal
    stream = MCP.paper().start(task)
    text = stream.run(features).parts["text"]
    np.testing.assert_allclose(text, softmax(LOGIT_SCALE * features @ task.text_prototypes.T), atol=1e-5)
    assert not [name for name in stream.arrays() if "level" in name]


@pytest.mark.parametrize("guard", [None, Guard()])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_steps(unequal, method, guard, tmp_path):
    task, features, _ = unequal
    by_steps, together = method.start(task, guard), method.start(task, guard)
    one = np.stack([by_steps.step(image).probabilities for image in features[:300]])
    other = np.concatenate([together.run(part).probabilities for part in np.split(features[:300], [30, 31, 190])])
    np.testing.assert_allclose(one, other, atol=2e-4)
    level = (together.state.mcp if isinstance(method, Keel) else together.state).temper.level
    assert not level.is_even, "names must have been found unequal"
    together.save(tmp_path / "state")
    loaded = Stream.load(tmp_path / "state", task)
    before = {name: array.tobytes() for name, array in loaded.arrays().items()}
    answer = loaded.predict(features[300])
    assert before == {name: array.tobytes() for name, array in loaded.arrays().items()}, "a look leaves no trace"
    np.testing.assert_array_equal(answer.probabilities, together.predict(features[300]).probabilities)


def test_several_views_are_leveled_alike(unequal):
    task, features, _ = unequal
    for method in METHODS:
        one, two = method.start(task), method.start(task)
        single = one.run(features[:300]).probabilities
        double = two.run(np.repeat(features[:300, None], 2, axis=1)).probabilities
        np.testing.assert_allclose(single, double, atol=2e-3)


def test_few_classes_are_no_evidence(alike):
    """Sorted by class, names seem unequal while a few classes are all that there was."""
    task, features, labels = alike
    stream = MCP().start(task)
    for first in range(0, IMAGES, 50):
        stream.run(features[np.argsort(labels, kind="stable")][first : first + 50])
        assert stream.state.temper.level.is_even


def test_slopes_are_those_of_autograd():
    random = np.random.default_rng(1)
    level = TextLevel(9)
    level.share[0], level.gains[:], level.offsets[:] = 0.5, random.uniform(0.5, 2, 9), random.normal(size=9)
    cosines = random.normal(size=(3, 9)).astype(np.float32)
    leveled = cosines.copy()
    level.put_right(leveled)
    found = 5.0 * level.pulled_back(entropy_slopes(5.0 * leveled))
    given = torch.tensor(cosines, dtype=torch.float64, requires_grad=True)
    gains, offsets = torch.tensor(level.gains).double(), torch.tensor(level.offsets).double()
    logits = 5 * ((given - given.mean(dim=1, keepdim=True)) * gains + offsets)
    mean = logits.softmax(dim=1).mean(dim=0)
    (-(mean * mean.log()).sum()).backward()
    np.testing.assert_allclose(found, given.grad.numpy(), atol=1e-5)


def test_the_stated_scale_is_asked_of_names_as_they_are(unequal):
    """It says how sure the text should be, and was stated for this text."""
    task, features, _ = unequal
    stream = MCP().start(task)
    stream.run(features[:200])
    assert not stream.state.temper.level.is_even, "names must have been found unequal"
    sure = softmax(LOGIT_SCALE * features[:200] @ task.text_prototypes.T).max(axis=1).mean()
    assert stream.state.temper.figures[2] == pytest.approx(sure, abs=1e-4)


def test_by_class_it_is_the_same():
    random = np.random.default_rng(2)
    level, cosines = TextLevel(5), random.normal(size=(8, 5)).astype(np.float32)
    np.testing.assert_array_equal(level.by_class(cosines.T), cosines.T)
    level.share[0], level.gains[:], level.offsets[:] = 0.5, random.uniform(0.5, 2, 5), random.normal(size=5)
    found = level.by_class(cosines.T)
    level.put_right(cosines)
    np.testing.assert_allclose(found, cosines.T, atol=1e-6)


def test_keels_memory_knows_the_level(unequal):
    """It starts from the text's names as the method hears them."""
    task, features, labels = unequal
    stream = Keel().start(task)
    stream.run(features)
    memory = stream.state.memory
    assert memory._level is stream.state.mcp.temper.level
    assert stream.copy().state.memory._level is not memory._level
    named = (features @ memory.weights.T + memory.offsets).argmax(axis=1)
    memory._level = TextLevel(CLASSES)
    memory._fit()
    unleveled = (features @ memory.weights.T + memory.offsets).argmax(axis=1)
    assert (named == labels).mean() > (unleveled == labels).mean() + 0.02


def test_a_window_bounds_what_is_remembered():
    level = TextLevel(3)
    level.sums[:] = 1000.0
    level.take_stock()
    assert level.sums[3].sum() == pytest.approx(2000)
    assert level.is_even
