"""Streams that merge: which laws hold exactly, for which methods; and rounds that machines may lose."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_stores import make_store
from trimtab import MCP, TDA, Guard, Keel, MCPPlus, MergingStream, ZeroShot, list_methods, make_method, merge
from trimtab.checks import random_stream
from trimtab.cluster.adapt import adapt_streams
from trimtab.cluster.adapt_plan import AdaptPlan, Division
from trimtab.engine.state import State
from trimtab.engine.state_io import read_state
from trimtab.errors import TrimtabError

TASK, FEATURES = random_stream(classes=5, dim=16, views=2, images=90, seed=3)
# Keel's memory is smaller than the stream, MCP++'s text moves as DPE's does: the harder cases.
HARDER = (Keel(memory_slots=64), MCPPlus(evolve_text=True, evolve_threshold=0.5))
MERGED = (*map(make_method, ("tda", "dmn", "boostadapter", "mcp", "mcp_plus", "dpe")), *HARDER)
NO_PROMOTION = MCP(promotion=False, text_scale="given", entropy_slots=3, align_slots=3)


def played(method, rows):
    stream = MergingStream(method.start(TASK))
    rows = np.asarray(sorted(rows))
    if len(rows):
        stream.run(FEATURES[rows], [f"image {row}" for row in rows], rows)
    return stream


def holdings(stream, section=None):
    """What each class holds, as sorted (source, score): the content of caches without the order of their slots."""
    names = {position: kept.source for position, kept in stream._kept.items()}
    found = {}
    for bank in stream.stream.state.banks():
        span = bank.sections[section] if section else slice(None)
        for label in range(len(bank.sources)):
            held = [
                (names[int(at)], float(score))
                for at, score in zip(bank.sources[label, span], bank.scores[label, span], strict=True)
                if at >= 0
            ]
            found[label] = sorted(held)
    return found


def same_bits(one, other):
    ours, theirs = one.stream.arrays(), other.stream.arrays()
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


parts = st.lists(st.integers(0, 2), min_size=90, max_size=90).map(
    lambda where: [[row for row in range(90) if where[row] == part] for part in range(3)]
)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(MERGED), parts)
def test_merging_is_commutative_and_idempotent_by_source_bit_for_bit(method, parts):
    a, b, c = (played(method, part) for part in parts)
    assert same_bits(merge([a, b, c]), merge([c, a, b]))
    assert same_bits(merge([a, a, b]), merge([a, b]))
    overlapping = played(method, parts[0] + parts[1])
    assert {kept.source for kept in merge([a, overlapping]).kept} <= {f"image {row}" for row in parts[0] + parts[1]}


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(TDA(), None), (TDA(query="plain"), None), (NO_PROMOTION, "entropy")]), parts)
def test_where_admission_looks_at_the_image_alone_merging_is_associative_and_exact(case, parts):
    method, section = case
    a, b, c = (played(method, part) for part in parts)
    whole = holdings(played(method, range(90)), section)
    assert holdings(merge([a, b, c]), section) == whole
    assert holdings(merge([merge([a, b]), c]), section) == whole
    assert holdings(merge([a, merge([b, c])]), section) == whole
    assert holdings(merge([merge([a])]), section) == holdings(a, section)


@settings(max_examples=10, deadline=None)
@given(parts)
def test_keels_memory_is_that_of_one_stream_over_everything_in_whatever_order_streams_merge(parts):
    method = HARDER[0]
    a, b, c = (played(method, part) for part in parts)
    for merged in (merge([a, b, c]), merge([merge([a, b]), c]), merge([a, merge([c, b])])):
        assert remembered(merged) == {f"image {row}" for row in range(90 - 64, 90)}


@settings(max_examples=5, deadline=None)
@given(parts)
def test_while_keel_remembers_every_image_a_merged_stream_is_the_whole_stream_bit_for_bit(parts):
    method = Keel(memory_slots=90)
    a, b, c = (played(method, part) for part in parts)
    whole = played(method, range(90))
    whole.stream.cut()
    assert same_bits(merge([a, b, c]), whole)
    assert same_bits(merge([merge([a, b]), c]), whole)


def remembered(stream):
    names = {position: kept.source for position, kept in stream._kept.items()}
    return {names[position] for position in stream.stream.state.memory.positions()}


def test_where_admission_asks_the_cache_merging_is_not_associative():
    """The documentation says so; if this fails, it says too little."""
    method = MCP(entropy_slots=3, align_slots=3)
    a, b, c = (played(method, range(part, 90, 3)) for part in range(3))
    assert holdings(merge([merge([a, b]), c])) != holdings(merge([a, b, c]))


def test_a_merged_stream_is_a_state_of_the_method(tmp_path):
    a, b = played(MCP(), range(0, 60, 2)), played(MCP(), range(1, 60, 2))
    merged = merge([a, b])
    assert all(kept.views.shape == (2, 16) for kept in merged.kept)
    merged.save(tmp_path / "state.safetensors")
    again = MergingStream.load(tmp_path / "state.safetensors", TASK, lambda source: FEATURES[int(source.split()[1])])
    assert same_bits(merged, again)
    rows = range(60, 90)
    names = [f"image {row}" for row in rows]
    one, other = merged.copy(), again
    assert np.array_equal(
        one.run(FEATURES[60:], names, rows).probabilities, other.run(FEATURES[60:], names, rows).probabilities
    )
    assert same_bits(merge([one]), merge([other]))
    assert not same_bits(one, merged)  # a copy goes its own way


def test_only_what_is_still_held_is_remembered():
    stream = MergingStream(TDA(positive_slots=1, negative_slots=1).start(TASK))
    for row in range(90):
        stream.run(FEATURES[row : row + 1], [f"image {row}"], [row])
        assert len(stream.kept) <= 2 * 5


@pytest.mark.parametrize("method", [MCP(), Keel()], ids=lambda method: method.name)
def test_what_was_let_go_of_does_not_come_back(method, tmp_path):
    stream = played(method, range(40))
    position, gone = next((at, kept.source) for at, kept in stream._kept.items())
    stream.stream.evict(position)
    stream.save(tmp_path / "state")
    loaded = MergingStream.load(tmp_path / "state", TASK, lambda source: FEATURES[int(source.split()[1])])
    for each in (stream, stream.copy(), loaded, merge([stream])):
        assert gone not in {kept.source for kept in each.kept}


@dataclass
class MeanOfAll(State):
    mean: np.ndarray


class Mean(ZeroShot):
    name = "mean"

    def new_state(self, task):
        return MeanOfAll(np.zeros(task.dim))


def test_what_cannot_be_merged_is_said():
    for name in list_methods():
        if not make_method(name).needs:
            played(make_method(name), [])
    with pytest.raises(TrimtabError, match="Streams of mean cannot be merged: it does not keep the images"):
        MergingStream(Mean().start(TASK))
    with pytest.raises(TrimtabError, match="There are no streams to merge"):
        merge([])
    with pytest.raises(TrimtabError, match="Streams of one method and one task can be merged"):
        merge([played(TDA(), [1]), played(TDA(positive_slots=2), [2])])
    with pytest.raises(TrimtabError, match="streams must be a list of MergingStreams"):
        merge([TDA().start(TASK)])
    with pytest.raises(TrimtabError, match="There are 2 images, but 1 sources and 2 times"):
        played(TDA(), []).run(FEATURES[:2], ["a"], [0, 1])
    used = TDA().start(TASK)
    used.run(FEATURES[:3])
    with pytest.raises(TrimtabError, match="begin with a new one"):
        MergingStream(used)


@pytest.mark.parametrize(
    ("features", "sources", "times", "words"),
    [
        (FEATURES[:2], ["a", "b"], ["x", "y"], "a time must be a whole number, not 'x'"),
        (FEATURES[:2], ["a", "b"], [None, 1], "a time must be a whole number, not None"),
        (FEATURES[:2], ["a", "b"], [0.0, np.nan], "a time must be a whole number, not 0.0"),
        (FEATURES[:2], ["a", "b"], 3, "times must be a list that holds a whole number for each image, not 3"),
        (FEATURES[:2], {"a", "b"}, [0, 1], "sources must be a list that holds a name for each image"),
        (FEATURES[:2], "ab", [0, 1], "sources must be a list that holds a name for each image"),
        (FEATURES[:2], ["a", 7], [0, 1], "sources must hold strings; item 1 is 7"),
        (np.float32(1), ["a"], [0], r"must have the shape .*, not \(\)"),
    ],
)
def test_wrong_names_and_times_teach_nothing(features, sources, times, words):
    stream = MergingStream(TDA().start(TASK))
    with pytest.raises(TrimtabError, match=words):
        stream.run(features, sources, times)
    assert (stream.stream.seen, stream.kept) == (0, [])


def test_names_and_times_may_come_one_by_one():
    stream = MergingStream(TDA().start(TASK))
    stream.run(FEATURES[:2], (name for name in "ab"), iter([1, 0]))
    assert [kept.source for kept in stream.kept] == ["b", "a"]


def test_a_stream_with_a_guard_is_not_merged(tmp_path):
    guarded = TDA().start(TASK, Guard())
    with pytest.raises(TrimtabError, match=r"A stream with a guard cannot be merged: .* start the stream without"):
        MergingStream(guarded)
    guarded.save(tmp_path / "state")
    with pytest.raises(TrimtabError, match="A stream with a guard cannot be merged"):
        MergingStream.load(tmp_path / "state", TASK, lambda _: FEATURES[0])


def test_streams_of_other_views_are_not_merged():
    plain = MergingStream(TDA().start(TASK))
    plain.run(FEATURES[:2, 0], ["a", "b"], [0, 1])
    with pytest.raises(TrimtabError, match="Images with 1 and with 2 views cannot be merged"):
        merge([plain, played(TDA(), [3])])
    for wrong in (3, TDA().start(TASK)):
        with pytest.raises(TrimtabError, match="streams must be a list of MergingStreams, not"):
            merge(wrong)


def fails(source):
    raise KeyError(source)


@pytest.mark.parametrize(
    ("views_of", "words"),
    [
        (fails, "views_of did not give the views of the image 'image 3' again: 'image 3'"),
        (lambda _: None, "views_of did not give the views of the image 'image 3' again: views must be an array"),
        (lambda _: FEATURES[0, :, :5], "'image 3' again: The features have 5 dimensions"),
        (3, "views_of must be a function of an image's name, not 3"),
    ],
)
def test_views_that_do_not_come_again_are_told(tmp_path, views_of, words):
    played(TDA(), [3]).save(tmp_path / "state")
    with pytest.raises(TrimtabError, match=words):
        MergingStream.load(tmp_path / "state", TASK, views_of)


def test_a_note_that_names_no_images_is_told(tmp_path):
    for note in ({}, {"kept": 3}, {"kept": {"x": ["a", 0]}}, {"kept": {"0": ["a"]}}):
        stream = TDA().start(TASK)
        stream.note = note
        stream.save(tmp_path / "state")
        with pytest.raises(TrimtabError, match="does not know the names of its images"):
            MergingStream.load(tmp_path / "state", TASK, lambda _: FEATURES[0])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    domains = [("photo", "sketch")[i % 2] for i in range(160)]
    return make_store(tmp_path_factory.mktemp("adapt") / "store", images=160, domains=domains)


def plan_of(store, **changes):
    given = {"store": str(store.path), "fingerprint": store.fingerprint, "method": "keel", "streams": 4}
    return AdaptPlan(**{**given, "merge_every": 15, "order": "shuffled", **changes})


def test_one_stream_without_merging_is_the_stream_itself(store, tmp_path):
    plan = plan_of(store, streams=1, merging=False)
    adapted = adapt_streams(plan, tmp_path / "out")
    rows, _ = Division(plan).parts[0]
    whole = Keel().start(store.task()).run(store.rows(rows))
    assert np.array_equal(adapted.labels[rows], whole.labels)
    assert set(adapted.streams) == {0}


@pytest.mark.parametrize("merging", [True, False])
def test_rounds_that_are_stopped_go_on_with_the_same_bits(store, tmp_path, merging):
    plan = plan_of(store, merging=merging)
    whole = adapt_streams(plan, tmp_path / "whole")

    def stop(done, _):
        if done >= 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adapt_streams(plan, tmp_path / "stopped", progress=stop)
    (tmp_path / "stopped" / "round-00000-00002.npz").unlink(missing_ok=not merging)
    again = adapt_streams(plan, tmp_path / "stopped")
    assert np.array_equal(again.labels, whole.labels)
    for path, other in zip(again.snapshots, whole.snapshots, strict=True):
        ours, theirs = read_state(path), read_state(other)
        assert (ours.seen, ours.note) == (theirs.seen, theirs.note)
        assert [n for n in ours.arrays if not np.array_equal(ours.arrays[n], theirs.arrays[n])] == []
    assert len(again.snapshots) == (1 if merging else 4)
    with pytest.raises(TrimtabError, match="holds the rounds of another plan"):
        adapt_streams(plan_of(store, seed=1), tmp_path / "stopped")


def test_streams_by_domain(store, tmp_path):
    adapted = adapt_streams(plan_of(store, streams=2, by_domain=True, merge_every=30), tmp_path / "out")
    assert [{"photo": 0, "sketch": 1}[domain] for domain in store.domains] == adapted.streams.tolist()
