"""Lazy views: within the budget at every point, only where views prove useful, and the same on every way to them."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench_stores import make_store
from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import MCP, Task
from trimtab.checks import random_stream
from trimtab.classifier import Classifier
from trimtab.cli.main import app
from trimtab.data.base import ImageSet
from trimtab.errors import TrimtabError
from trimtab.features.encode import encode_images
from trimtab.lazy_views import LAZY_NOTE, LazyViews, repeated
from trimtab.study import bench
from trimtab.study.bench.predicting import rows_in_order

NAMES = tuple(COLORS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def stream_where_they_differ(images, right):
    """Plain views and crops that name different classes in half of the images; `right`: the crops are right there.

    What an image really shows is in dimensions that no text speaks about.
    """
    rng = np.random.default_rng(0)
    task = Task([str(c) for c in range(4)], np.eye(4, 12, dtype=np.float32), 20.0)
    shown = rng.integers(0, 4, images)
    plain, crops = shown.copy(), shown.copy()
    differ = rng.random(images) < 0.5
    mistaken = plain if right else crops
    mistaken[differ] = (shown[differ] + 1) % 4
    rows = 0.02 * rng.normal(size=(images, 8, 12))
    every = np.arange(images)
    rows[every, :, 4 + shown] += 1
    rows[every, 0, plain] += 0.1
    rows[every, 1:, crops] += 0.5
    return task, (rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.floats(1, 40), st.integers(0, 99))
def test_the_budget_is_a_bound_at_every_point(views, budget, seed):
    budget = min(budget, views)
    task, rows = random_stream(classes=4, dim=8, views=views, images=60, seed=seed)
    lazy = LazyViews(task, views, budget)
    encoded = [len(lazy.look(row)) for row in rows]
    assert (np.cumsum(encoded) <= budget * np.arange(1, 61) + 1e-9).all()
    assert lazy.views_per_image == pytest.approx(np.mean(encoded))
    assert set(encoded) <= {1, max(2, views // 4), views}


def test_views_are_encoded_where_they_prove_useful_and_not_where_they_mislead():
    spent = {}
    for right in (True, False):
        task, rows = stream_where_they_differ(400, right)
        lazy = LazyViews(task, 8, 3.0)
        for row in rows:
            lazy.look(row)
        assert lazy.useful == right
        spent[right] = lazy.views_per_image
    assert spent[True] > 2
    assert spent[False] < 1.5


def test_deciding_changes_nothing_and_what_is_known_can_be_kept():
    task, rows = stream_where_they_differ(200, right=True)
    one, other = LazyViews(task, 8, 3.0), LazyViews(task, 8, 3.0)
    for row in rows[:100]:
        one.look(row)
        for _ in range(3):
            other.wanted(row[:1])
        other.look(row)
    assert one.note() == other.note()
    kept = LazyViews(task, 8, 3.0)
    kept.recall(one.note())
    ahead = one.copy()
    assert [len(one.look(row)) for row in rows[100:]] == [len(kept.look(row)) for row in rows[100:]]
    assert ahead.note() == other.note() != one.note() == kept.note()
    kept.recall(None)
    assert kept.note() == LazyViews(task, 8, 3.0).note()


def test_repeated_views_are_the_same_share_of_confident_views():
    task, rows = random_stream(classes=4, dim=8, views=4, images=30, seed=1)
    few = MCP(view_fraction=0.5).start(task).run(rows)
    many = MCP(view_fraction=0.5).start(task).run(np.stack([repeated(row, 12) for row in rows]))
    np.testing.assert_allclose(few.probabilities, many.probabilities, atol=1e-6)


def pictures(count=60):
    """Pictures that are half one color and half another, so that crops differ from the whole."""
    found = []
    for i in range(count):
        picture = colored(NAMES[i % 4], seed=i, noise=100)
        picture[:, 38:] = colored(NAMES[(i // 4) % 4], seed=i + 1000, noise=100)[:, 38:]
        found.append(picture)
    return found


def lazy_classifier():
    return Classifier(ColorEncoder(), NAMES, views=8, view_budget=3)


def test_many_give_the_answers_of_one_at_a_time_and_leave_no_trace_of_what_is_ahead():
    one, many, stopped = lazy_classifier(), lazy_classifier(), lazy_classifier()
    expected = [one.classify(picture) for picture in pictures()]
    assert [guesses for _, guesses in many.classify_many(pictures())] == expected
    assert many.lazy.note() == one.lazy.note()
    assert 1 < one.lazy.views_per_image <= 3
    answers = stopped.classify_many(pictures())
    assert [guesses for _, guesses in itertools.islice(answers, 20)] == expected[:20]
    answers.close()
    assert [guesses for _, guesses in stopped.classify_many(pictures()[20:])] == expected[20:]


def test_a_saved_classifier_goes_on_as_if_it_had_never_stopped(tmp_path):
    whole, first = lazy_classifier(), lazy_classifier()
    expected = [whole.classify(picture) for picture in pictures()]
    for picture in pictures()[:30]:
        first.classify(picture)
    first.stream.note = {"mine": 1}
    first.save(tmp_path / "state")
    second = lazy_classifier().load(tmp_path / "state")
    assert second.stream.note["mine"] == 1
    assert [second.classify(picture) for picture in pictures()[30:]] == expected[30:]
    second.reset()
    assert second.lazy.note() == lazy_classifier().lazy.note()


def test_a_store_under_the_budget_says_what_the_classifier_says(tmp_path):
    shown = pictures()
    images = ImageSet("halves", NAMES, np.arange(60) % 4, [str(i) for i in range(60)], shown.__getitem__)
    store = encode_images(images, ColorEncoder(), out=tmp_path / "store", views=8, dtype="float32", templates="photo")
    rows = rows_in_order(store, "stored", 0, budget=3)
    found = MCP().start(store.task()).run(rows)
    classifier = Classifier(ColorEncoder(), NAMES, method="mcp", views=8, view_budget=3, guard=False)
    for picture, probabilities in zip(shown, found.probabilities, strict=True):
        best = classifier.classify(picture, top=1)[0]
        assert best["label"] == NAMES[probabilities.argmax()]
        assert best["score"] == pytest.approx(probabilities.max(), abs=1e-4)
    assert rows.views_per_image == classifier.lazy.views_per_image


def test_a_benchmark_has_a_row_for_each_method_under_the_budget(tmp_path):
    store = make_store(tmp_path / "small", views=8, images=80)
    plan = bench.make_plan([store.path], ["mcp"], seeds=1, weights=["fixed"], view_budget=2)
    records = {(r.about.method, r.about.variant): r for r in bench.run_plan(plan, tmp_path / "results", workers=1)}
    assert set(records) == {("zero_shot", ""), ("mcp", ""), ("mcp", "view_budget=2")}
    assert records["mcp", ""].cost.views_per_image is None
    assert 1 <= records["mcp", "view_budget=2"].cost.views_per_image <= 2
    with pytest.raises(TrimtabError, match="between 1 and the number of views"):
        bench.make_plan([store.path], ["mcp"], view_budget=9)


class SlowEncoder(ColorEncoder):
    def encode_images(self, pixels):
        time.sleep(0.002)  # so that threads meet here
        return super().encode_images(pixels)


def test_threads_that_share_a_classifier_keep_the_budget():
    classifier = Classifier(SlowEncoder(), NAMES, method="mcp", views=8, view_budget=1.25)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(classifier.classify, pictures(40)))
    assert classifier.seen == 40
    assert classifier.lazy.views_per_image <= 1.25


def test_an_image_without_views_is_refused():
    classifier = lazy_classifier()
    with pytest.raises(TrimtabError, match="An image needs at least one view"):
        classifier.classify_features(np.zeros((0, 28), np.float32))
    assert classifier.seen == 0


@pytest.mark.parametrize("missing", ["figures", "labels", "kept", "rows"])
def test_a_note_that_is_not_whole_is_refused_and_changes_nothing(tmp_path, missing):
    classifier = lazy_classifier()
    classifier.classify(pictures(1)[0])
    note = classifier.lazy.note()
    for wrong in ({name: what for name, what in note.items() if name != missing}, {**note, missing: "x"}, 3):
        classifier.stream.note = {LAZY_NOTE: wrong}
        classifier.stream.save(tmp_path / "state")
        other = lazy_classifier()
        with pytest.raises(TrimtabError, match="What the state notes of lazy views is not whole"):
            other.load(tmp_path / "state")
        assert (other.seen, other.lazy.views_per_image) == (0, 0)


def test_wrong_budgets_are_one_sentence():
    with pytest.raises(TrimtabError, match="view_budget must be between 1 and the number of views, 4, not 5"):
        Classifier(ColorEncoder(), NAMES, views=4, view_budget=5)
    told = CliRunner().invoke(app, ["classify", ".", "--labels", "red,blue", "--view-budget", "0.5"])
    assert told.exit_code == 2
