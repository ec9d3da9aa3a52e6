"""After a kill at any point a stream continues bit for bit; damage is survived, or there is a way out."""

import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve_case import IMAGES, TASK, after_a_kill, learned, made, requests
from trimtab import Stream
from trimtab.serve import Request, Tenant
from trimtab.serve.refusals import Damaged, TrimtabError
from trimtab.serve.repair import repair

SLOW = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
indices = st.integers(0, len(IMAGES) - 1)
OPERATIONS = st.one_of(
    st.tuples(st.just("images"), st.lists(indices, min_size=1, max_size=6)),
    st.tuples(st.just("images"), st.lists(indices, min_size=1, max_size=6)),
    st.tuples(st.just("source"), indices),
    st.tuples(st.just("correct"), indices),
    st.tuples(st.just("evict"), indices),
    st.tuples(st.just("look"), indices),
    st.tuples(st.sampled_from(["forget", "freeze", "resume", "reset", "snapshot", "restore", "put"]), st.just(0)),
)


def do(tenant, operation):
    """One operation on a stream; refusals are part of life."""
    kind, given_ = operation
    with tenant._awake() as ledger:
        position = sum(given_) if isinstance(given_, list) else given_
        image = ledger.memory.lineage.id_of(position % max(ledger.memory.stream.seen, 1))
    try:
        if kind == "images":
            tenant.classify([Request(IMAGES[index], key=f"key {index}") for index in given_])
        elif kind == "source":
            tenant.classify([Request(IMAGES[given_], source=f"camera {given_ % 2}")])
        elif kind == "look":
            tenant.classify([Request(IMAGES[given_], learn=False)])
        elif kind == "correct":
            tenant.feedback(image, TASK.class_names[given_ % TASK.classes])
        elif kind == "evict":
            tenant.evict(image)
        elif kind == "forget":
            tenant.forget("camera 1")
        elif kind == "snapshot":
            tenant.take_snapshot()
        elif kind == "restore":
            tenant.restore(tenant.snapshots()[-1].name)
        elif kind == "put":
            tenant.put_state(tenant.state_bytes())
        else:
            getattr(tenant, kind)()
    except (TrimtabError, IndexError):
        pass


@pytest.mark.parametrize(("method", "guard"), [("mcp", True), ("keel", True), ("tda", True), ("mcp", False)])
@SLOW
@given(operations=st.lists(OPERATIONS, min_size=1, max_size=14), share=st.floats(0, 1))
def test_a_kill_at_any_byte_of_the_journal(tmp_path_factory, method, guard, operations, share):
    place = tmp_path_factory.mktemp("kill")
    tenant = made(place / "live", method=method, guard=guard, fsync="never")
    do(tenant, ("images", [0, 1, 2]))
    known = []  # the journal's size after each operation, and what the stream knew then
    (path,) = (place / "live" / "journal").glob("*.journal")
    for operation in operations:
        known.append((path.stat().st_size, learned(tenant), operation))
        do(tenant, operation)
    final = learned(tenant)
    size = path.stat().st_size
    cut = known[0][0] + round(share * (size - known[0][0]))
    killed = after_a_kill(tenant, place / "killed")
    os.truncate(killed / "journal" / path.name, cut)
    again = Tenant.open(killed)
    number = max(n for n, (size, _, _) in enumerate(known) if size <= cut)
    expected = final if cut == size else known[number][1]
    found = learned(again)
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.parametrize("method", ["mcp", "keel", "tda"])
def test_a_stream_that_was_killed_again_and_again_is_as_one_that_never_was(tmp_path, method):
    whole = made(tmp_path / "whole", method=method, fsync="never", snapshot_every=30)
    tenant = made(tmp_path / "0", method=method, fsync="never", snapshot_every=30)
    random = np.random.default_rng(1)
    first, kills = 0, 0
    while first < 150:
        last = first + int(random.integers(1, 9))
        for stream in (whole, tenant):
            answers = stream.classify(requests(first, last))
        first = last
        if random.random() < 0.3:
            kills += 1
            tenant._keeper.finish()  # a copy of files that are being written is no kill; the audit's kills are real
            tenant = Tenant.open(after_a_kill(tenant, tmp_path / str(kills)))
    assert kills > 5
    assert answers[-1].seen == first
    mine, theirs = learned(tenant), learned(whole)
    for name in mine.keys() - {"note"}:  # notes hold the time of day
        assert mine[name] == theirs[name], name


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A stream with two checkpoints and two snapshots, and what it knows."""
    tenant = made(tmp_path_factory.mktemp("long") / "s", fsync="never", snapshot_every=40)
    for first in range(0, 120, 10):
        tenant.classify(requests(first, first + 10))
        tenant._keeper.finish()
    tenant.classify(requests(120, 130))
    return tenant, learned(tenant)


def streams_folder(long, tmp_path):
    """A copy as a server has it, so that it can be repaired."""
    (tmp_path / "hub" / "streams").mkdir(parents=True)
    return after_a_kill(long[0], tmp_path / "hub" / "streams" / "s")


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("ending", [".safetensors", ".json"])
@pytest.mark.parametrize("harm", [flip, lambda path: path.unlink(), lambda path: os.truncate(path, 100)])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it(long, tmp_path, ending, harm):
    path = streams_folder(long, tmp_path)
    checkpoints = sorted((path / "checkpoints").glob(f"*{ending}"))
    assert len(checkpoints) == 2
    harm(checkpoints[-1])
    assert learned(Tenant.open(path)) == long[1]
    assert learned(Tenant.open(path)) == long[1], "and again, once it was set aside"


def test_without_any_checkpoint_a_repair_takes_the_newest_snapshot(long, tmp_path):
    path = streams_folder(long, tmp_path)
    for state in (path / "checkpoints").glob("*.json"):
        flip(state, 200)
    for _ in range(2):
        with pytest.raises(Damaged, match=r"json has been changed.* Without that checkpoint: .*lacks entries 0 to"):
            Tenant.open(path)
    assert len(list((path / "checkpoints").glob("*.safetensors"))) == 2, "nothing was moved that may still be of use"
    assert "continues from its snapshot of 120 images" in repair(path)
    tenant = Tenant.open(path)
    assert tenant.classify(requests(130, 131))[0].seen == 121
    assert "is whole" in repair(path)


def test_a_damaged_middle_is_refused_and_a_repair_keeps_what_is_before(long, tmp_path):
    path = streams_folder(long, tmp_path)
    last = sorted((path / "journal").glob("*.journal"))[-1]
    tenant = Tenant.open(path)
    tenant.classify(requests(130, 135))
    tenant.classify(requests(135, 140))
    size = last.stat().st_size
    flip(last, size - 3000)
    with pytest.raises(Damaged, match=r"^s/journal/\d+.journal is damaged at byte \d+, where entry 130.*repair"):
        Tenant.open(path)
    assert "continues after the 130 changes before that" in repair(path)
    assert learned(Tenant.open(path)) == long[1]
    assert list((path / "journal").glob("*.damaged"))


def test_a_record_that_cannot_be_repeated_has_a_way_out(long, tmp_path, monkeypatch):
    path = streams_folder(long, tmp_path)
    tenant = Tenant.open(path)
    tenant.classify(requests(130, 133, source="poison"))
    tenant._ledger.close()
    real = Stream.step

    def step(self, views, source=None):
        return 1 / 0 if source == "poison" else real(self, views, source)

    monkeypatch.setattr(Stream, "step", step)
    with pytest.raises(Damaged, match=r"Entry 130 of the journal cannot be applied.*repair"):
        Tenant.open(path)
    assert "continues after the 130 changes" in repair(path)
    assert learned(Tenant.open(path)) == long[1]


def test_a_state_that_was_put_back_and_is_lost_is_refused(long, tmp_path):
    path = streams_folder(long, tmp_path)
    tenant = Tenant.open(path)
    tenant.restore(tenant.snapshots()[-1].name)
    (state,) = (path / "given").glob("*.safetensors")
    state.unlink()
    with pytest.raises(Damaged, match="is missing or damaged"):
        Tenant.open(path)
    repair(path)
    assert learned(Tenant.open(path)) == long[1]


def test_text_and_settings_are_believed_only_if_whole(long, tmp_path):
    path = streams_folder(long, tmp_path)
    for name, place, named in (("stream.json", 300, "stream.json"), ("text.npy", -5, "text prototypes in")):
        shutil.copy(path / name, tmp_path / name)
        flip(path / name, place)
        with pytest.raises(Damaged, match=named):
            Tenant.open(path)
        shutil.copy(tmp_path / name, path / name)
    assert learned(Tenant.open(path, TASK.text_prototypes)) == long[1]
    with pytest.raises(TrimtabError, match="gives other text features"):
        Tenant.open(path, TASK.text_prototypes[::-1])
