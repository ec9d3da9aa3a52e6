"""Label sets where most classes never hold anything: the numbers of the dense bank, without its memory."""

import warnings

import numpy as np
import pytest

from trimtab import MCP, TDA, Guard, Keel, MCPPlus, MergingStream, Stream, Task, merge, run_top, shortlist
from trimtab.checks import random_stream
from trimtab.engine import wide
from trimtab.errors import TrimtabError
from trimtab.methods.boostadapter import BoostAdapter

METHODS = [
    MCP(),
    MCP.paper(),
    MCP(query="confident_mean", order="predict_first"),
    MCP(entropy_slots=2, align_slots=1, negative_slots=1),
    TDA(),
    TDA(query="plain"),
    BoostAdapter(),
    MCPPlus(),
]


@pytest.fixture
def both(monkeypatch):
    """The same task and images, and a function that starts a stream with a dense or with a wide bank."""
    task, features = random_stream(classes=40, dim=16, views=3, images=150, seed=5)

    def start(method, *, is_wide):
        monkeypatch.setattr(wide, "WIDE", 10 if is_wide else 16_384)
        monkeypatch.setattr(wide, "FIRST_ROOM", 4)
        return method.start(task)

    return start, features, task


@pytest.mark.parametrize("method", METHODS, ids=[f"{number}-{method.name}" for number, method in enumerate(METHODS)])
def test_wide_banks_give_the_numbers_of_dense_ones(both, method):
    start, features, _ = both
    dense, sparse = start(method, is_wide=False), start(method, is_wide=True)
    assert not any(isinstance(bank, wide.WideBank) for bank in dense.state.banks())
    assert all(isinstance(bank, wide.WideBank) for bank in sparse.state.banks())
    expected, found = dense.run(features), sparse.run(features)
    for name, part in expected.parts.items():
        assert np.allclose(found.parts[name], part, atol=2e-5), name
    assert (found.labels == expected.labels).mean() > 0.98
    for ours, theirs in zip(dense.state.banks(), sparse.state.banks(), strict=True):
        assert np.array_equal(ours.sources, theirs.sources)
        assert np.allclose(ours.features, theirs.features[:], atol=1e-6)
        assert theirs.used_rows == (ours.sources >= 0).any(axis=1).sum()


@pytest.mark.parametrize("kinds", [1, 7, 500])
def test_equal_keys_are_found(kinds):
    keys = np.random.default_rng(kinds).integers(-kinds, kinds, size=300)
    firsts, which = wide.first_of_equals(keys)
    assert np.array_equal(keys[firsts][which], keys)
    assert len(set(keys[firsts].tolist())) == len(firsts) == len(set(keys.tolist()))
    assert np.array_equal(firsts, np.sort(firsts))
    assert len(wide.first_of_equals(keys[:0])[0]) == 0


def test_what_changes_between_blocks_is_multiplied_again(both):
    start, features, _ = both
    stream = start(MCP(entropy_slots=1), is_wide=True)
    (bank,) = stream.state.banks()
    stream.run(features[:100])
    stream.evict(int(bank.sources.max()))  # items move up
    for label in range(5):
        stream.correct(40 + label, label, features[40 + label])  # over what the class held
    stream.predict(features[101])  # written, and taken back
    fresh = stream.copy()
    assert np.array_equal(stream.run(features[100:]).probabilities, fresh.run(features[100:]).probabilities)
    held = bank.used[: bank.used_rows] > 0
    exact = bank.slots[: bank.used_rows][held] @ bank.open_block.queries[-1]
    assert np.allclose(bank.by_class[: bank.used_rows, :, -1][held], exact, atol=1e-5)


@pytest.mark.parametrize("method", [MCP(), TDA()], ids=lambda method: method.name)
def test_wide_streams_step_save_copy_and_merge(both, method, tmp_path):
    start, features, task = both
    run, stepped = start(method, is_wide=True), start(method, is_wide=True)
    whole = run.run(features[:60])
    steps = [stepped.step(views) for views in features[:60]]
    assert np.allclose([step.probabilities for step in steps], whole.probabilities, atol=1e-5)
    run.save(tmp_path / "state.safetensors")
    copy, loaded = run.copy(), Stream.load(tmp_path / "state.safetensors", task)
    expected = run.run(features[60:]).probabilities
    assert np.array_equal(copy.run(features[60:]).probabilities, expected)
    assert np.array_equal(loaded.run(features[60:]).probabilities, expected)
    parts = [MergingStream(start(method, is_wide=True)) for _ in range(2)]
    for part, stream in enumerate(parts):
        rows = range(part, 60, 2)
        stream.run(features[part:60:2], [str(row) for row in rows], rows)
    merged = merge(parts)
    dense = MergingStream(start(method, is_wide=False))
    kept = merged.kept
    dense.run(np.stack([k.views for k in kept]), [k.source for k in kept], [k.time for k in kept])
    assert {k.source for k in merged.kept} == {k.source for k in dense.kept}


@pytest.mark.parametrize("method", [MCP(), TDA()], ids=lambda method: method.name)
def test_a_look_at_a_wide_stream_leaves_no_trace(both, method):
    start, features, _ = both
    dense, sparse = start(method, is_wide=False), start(method, is_wide=True)
    dense.run(features[:20])
    sparse.run(features[:20])
    before = {name: array.copy() for name, array in sparse.arrays().items()}
    for views in features[20:60]:  # most of them would open a class
        assert np.allclose(sparse.predict(views).probabilities, dense.predict(views).probabilities, atol=2e-5)
    after = sparse.arrays()
    assert {name: array.shape for name, array in after.items()} == {name: a.shape for name, a in before.items()}
    assert all(np.array_equal(after[name], before[name]) for name in before)


def test_sources_are_forgotten(both):
    start, features, _ = both
    dense, sparse = start(MCP(), is_wide=False), start(MCP(), is_wide=True)
    for stream in (dense, sparse):
        stream.run(features[:60])
        next(stream.state.banks()).forget(np.arange(0, 60, 3))
    assert np.allclose(sparse.run(features[60:]).probabilities, dense.run(features[60:]).probabilities, atol=2e-5)


@pytest.mark.parametrize("method", [MCP(), TDA()], ids=lambda method: method.name)
def test_a_guard_of_a_wide_stream_is_that_of_a_dense_one(both, method):
    start, features, task = both
    streams = []
    for is_wide in (False, True):
        start(method, is_wide=is_wide)  # says from how many classes on a bank is wide
        streams.append(method.start(task, Guard(contradicted=1)))
    images = features.copy()
    images[5::9] = images[4:-1:9][: len(images[5::9])]  # duplicates
    dense, sparse = (stream.run(images, sources=["a", "b", None] * 50) for stream in streams)
    assert np.allclose(dense.probabilities, sparse.probabilities, atol=2e-5)
    (watch, other) = (stream.watch for stream in streams)
    assert np.array_equal(watch.verdicts, other.verdicts)
    assert watch.counts[1:].sum() > 0
    assert watch.events.tolist() == other.events.tolist()
    gone = []
    for stream in streams:
        stream.watch.health.answers[:] = 3  # so that neighbors contradict every item of another class
        (bank,) = stream.state.banks()
        gone.append(stream.watch.contradicted(bank, 128))
    assert np.array_equal(*gone)
    assert gone[0].any()
    assert streams[0].forget("a") == streams[1].forget("a") > 0
    assert np.allclose(
        streams[0].step(features[7]).probabilities, streams[1].step(features[7]).probabilities, atol=2e-5
    )
    with pytest.raises(TrimtabError, match="Snapshots are for label sets of up to"):
        method.start(task, Guard(snapshots=1))


def test_similarities_are_those_of_the_dense_bank(both):
    start, features, task = both
    for method in (MCP(), TDA()):
        pair = [start(method, is_wide=is_wide) for is_wide in (False, True)]
        found = []
        for stream in pair:
            stream.run(features[:40])
            block = stream.method.look(task, features[40:44], 40, None)
            stream.state.open(block)
            bank = next(stream.state.banks())
            found.append(bank.similarities(list(block)[2]))
        assert np.allclose(*found, atol=1e-5)


def test_top_answers_are_those_of_run(both):
    start, features, _ = both
    whole = start(MCP(), is_wide=True).run(features)
    top = run_top(start(MCP(), is_wide=True), features, k=3)
    assert len(top) == 150
    assert np.array_equal(top.labels[:, 0], whole.labels)
    assert np.array_equal(top.probabilities, -np.sort(-whole.probabilities, axis=1)[:, :3])
    assert np.array_equal(np.take_along_axis(whole.probabilities, top.labels, axis=1), top.probabilities)
    with pytest.raises(TrimtabError, match="k must be a whole number from 1 to 40, not 41"):
        run_top(start(MCP(), is_wide=True), features, k=41)


def test_a_stream_that_run_top_refuses_has_taught_nothing(both):
    start, features, _ = both
    stream, wrong = start(MCP(), is_wide=True), features.copy()
    wrong[149, 1, 3] = np.nan
    with pytest.raises(TrimtabError, match="View 1 of image 149 holds NaN"):
        run_top(stream, wrong)
    with pytest.raises(TrimtabError, match=r"must have the shape .*, not \(\)"):
        run_top(stream, np.float32(1))
    assert stream.seen == 0


@pytest.mark.parametrize(("number", "what"), [(np.nan, "holds NaN"), (0, "is a zero vector"), (1e300, "holds NaN")])
def test_a_shortlist_of_features_that_say_nothing_is_refused(both, number, what):
    _, features, task = both
    wrong = features.astype(np.float64)
    wrong[3, 0] = number
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TrimtabError, match=f"View 0 of image 3 {what}"):
            shortlist(task, wrong)
    with pytest.raises(TrimtabError, match=r"features must have the shape \(images, 16\), not \(3, 0, 16\)"):
        shortlist(task, features[:3, :0])


def test_a_shortlist_holds_the_nearest_classes_of_every_image(both, monkeypatch):
    _, features, task = both
    monkeypatch.setattr("trimtab.large_labels.CLASSES_AT_ONCE", 7)
    small, chosen = shortlist(task, features, k=2)
    exact = np.argsort(-(features[:, 0] @ task.text_prototypes.T), axis=1)[:, :2]
    assert chosen.tolist() == sorted(set(exact.ravel().tolist()))
    assert small.class_names == tuple(task.class_names[c] for c in chosen)
    assert np.allclose(small.text_prototypes, task.text_prototypes[chosen])
    with pytest.raises(TrimtabError, match="the shortlist holds 1; raise k"):
        shortlist(task, features[:1], k=1)
    with pytest.raises(TrimtabError, match=r"features must have the shape \(images, 16\), not \(3, 9\)"):
        shortlist(task, features[:3, 0, :9])


def test_what_does_not_fit_the_machine_is_refused(monkeypatch):
    monkeypatch.setattr(wide.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 1 << 18)  # 1 GB
    with pytest.raises(
        TrimtabError, match=r"1,000,000 classes of 512 dimensions need about 7 GB, and this machine has 1"
    ):
        wide.WideBank(1_000_000, 512, {"memory": 3})


def test_usual_label_sets_have_dense_banks():
    task = Task([str(c) for c in range(1000)], np.eye(1000, dtype=np.float32))
    assert not any(isinstance(bank, wide.WideBank) for bank in MCP().start(task).state.banks())


@pytest.mark.parametrize("method", [MCP(), MCPPlus(), Keel(), TDA()], ids=lambda method: method.name)
def test_a_guarded_wide_stream_learns_from_single_steps_as_from_a_run(both, method):
    start, features, task = both
    start(method, is_wide=True)
    run, steps = (method.start(task, Guard()) for _ in range(2))
    images = features[:, :1]
    answers = run.run(images).probabilities
    stepped = [steps.step(image).probabilities for image in images]
    assert np.array_equal(run.watch.verdicts, steps.watch.verdicts)
    assert np.allclose(answers, stepped, atol=2e-5)
