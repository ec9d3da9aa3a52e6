"""One served stream: what it answers, repeats, refuses, forgets and puts back."""

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serve_case import IMAGES, TASK, after_a_kill, learned, made, requests, stepped
from trimtab import Stream
from trimtab.errors import TrimtabError
from trimtab.serve import Request, Tenant
from trimtab.serve import journal as journal_module
from trimtab.serve.refusals import DiskFull, Frozen, KeyReused, NoSuchImage, NoSuchSnapshot


@pytest.fixture
def tenant(tmp_path):
    return made(tmp_path / "s", fsync="never")


def test_answers_are_those_of_a_stream(tenant):
    answers = tenant.classify(requests(0, 60))
    stream = Stream(tenant.settings.make_method(), TASK, tenant.settings.make_guard())
    for number, answer in enumerate(answers):
        expected = stream.step(IMAGES[number])
        assert np.array_equal(answer.probabilities, expected.probabilities)
        assert answer.label == TASK.class_names[expected.label]
        assert answer.score == expected.probabilities.max()
        assert answer.learned == stream.why(number).startswith("Learned")
        assert (answer.id, answer.seen, answer.version) == (f"0-{number}", number + 1, number + 1)
        assert answer.zero_shot.label == TASK.class_names[int((TASK.text_prototypes @ IMAGES[number]).argmax())]
        assert answer.parts.keys() == expected.parts.keys()
        assert answer.durable
        assert not answer.replayed


def test_a_part_that_has_nothing_to_say_yet_does_not_disagree(tmp_path):
    tenant = made(tmp_path / "keel", method="keel", fsync="never")
    answers = tenant.classify(requests(0, 16))  # the memory is fitted after them
    assert all("whitened" not in answer.parts and "text" in answer.parts for answer in answers)
    assert any(answer.agree for answer in answers)
    for answer in answers:
        assert answer.agree == all(part.label == answer.label for part in answer.parts.values())


def test_a_look_leaves_no_trace(tenant):
    tenant.classify(requests(0, 20))
    before = learned(tenant)
    (look,) = tenant.classify(requests(20, 21, learn=False))
    assert learned(tenant) == before
    with tenant._awake() as ledger:
        expected = ledger.memory.stream.predict(IMAGES[20])
    assert np.array_equal(look.probabilities, expected.probabilities)
    assert not look.learned
    assert "not asked" in look.why_not
    with pytest.raises(NoSuchImage, match="no id of an image"):
        tenant.feedback(look.id, "class 1")


@pytest.mark.parametrize(
    "features",
    [
        np.ones((257, 64)),
        np.zeros((1, 64)),
        np.full((1, 64), np.nan),
        np.ones((1, 63)),
        np.ones((0, 64)),
        np.ones((2, 2, 64)),
        ["a"],
        1.0,
    ],
)
def test_bad_features_are_refused_before_anything_is_written(tenant, features):
    good, bad = Request(IMAGES[0]), Request(features)
    with pytest.raises(TrimtabError, match="features"):
        tenant.classify([good, bad])
    assert tenant.summary()["seen"] == 0
    first, second = tenant.classify_each([good, bad])
    assert first.seen == 1
    assert isinstance(second, TrimtabError)


def test_a_repeated_key_gets_the_first_answer_and_teaches_once(tenant, tmp_path):
    (first,) = tenant.classify([Request(IMAGES[0], key="a")])
    tenant.classify(requests(1, 30))
    twice = tenant.classify([Request(IMAGES[30], key="b"), Request(IMAGES[30], key="b"), Request(IMAGES[0], key="a")])
    assert [answer.replayed for answer in twice] == [False, True, True]
    assert twice[1].id == twice[0].id
    assert tenant.summary()["seen"] == 31
    tenant.sleep()
    for stream in (tenant, Tenant.open(after_a_kill(tenant, tmp_path / "killed"))):
        (again,) = stream.classify([Request(IMAGES[0], key="a")])
        assert again.replayed
        assert np.array_equal(again.probabilities, first.probabilities)
        assert (again.id, again.seen, again.zero_shot, again.parts) == (first.id, 1, first.zero_shot, first.parts)
        with pytest.raises(KeyReused, match="'a' was used for another image"):
            stream.classify([Request(IMAGES[1], key="a")])
        assert stream.summary()["seen"] == 31


def test_a_key_that_is_used_for_two_images_of_one_call_is_refused(tenant):
    with pytest.raises(KeyReused):
        tenant.classify([Request(IMAGES[0], key="a"), Request(IMAGES[1], key="a")])
    assert tenant.summary()["seen"] == 0
    first, second = tenant.classify_each([Request(IMAGES[0], key="a"), Request(IMAGES[1], key="a")])
    assert first.seen == 1
    assert isinstance(second, KeyReused)
    (look,) = tenant.classify([Request(IMAGES[2], key="look", learn=False)])
    with pytest.raises(KeyReused):
        tenant.classify([Request(IMAGES[3], key="look")])
    assert tenant.classify([Request(IMAGES[2], key="look")])[0].id == look.id


def test_half_characters_are_refused_before_anything_is_written(tenant):
    for given in ({"key": "\ud800"}, {"source": "\udfff"}, {"key": "k" * 256}, {"source": ""}, {"key": 3}):
        with pytest.raises(TrimtabError):
            tenant.classify(requests(0, 1, **given))
    with pytest.raises(TrimtabError, match="half a character"):
        tenant.forget("\ud800")
    assert tenant.summary()["version"] == 0


def test_only_so_many_keys_are_kept(tenant):
    with tenant._awake() as ledger:
        ledger.memory.keys._most = 5
    tenant.classify([Request(IMAGES[n], key=str(n)) for n in range(8)])
    assert tenant.classify([Request(IMAGES[7], key="7")])[0].replayed
    assert not tenant.classify([Request(IMAGES[0], key="0")])[0].replayed


def together(count, work):
    """Run work(0), work(1), ... in threads of their own."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_that_wait_together_share_one_flush(tmp_path, monkeypatch):
    tenant = made(tmp_path / "s")
    tenant.classify(requests(0, 1))
    flushes = []
    monkeypatch.setattr(journal_module, "_sync", flushes.append)
    with tenant._lock:
        threads = together(8, lambda number: tenant.classify(requests(number + 1, number + 2)))
        while len(tenant._waiting) < 8:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert len(flushes) == 1
    assert tenant.summary()["seen"] == 9


def test_the_order_of_many_threads_is_one_order(tenant, tmp_path):
    order = {}

    def client(number):
        for index in range(number, 96, 8):
            (answer,) = tenant.classify(requests(index, index + 1))
            assert answer.durable, answer.why_not
            order[answer.seen - 1] = index

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client, range(8)))  # raises what a client raises
    assert sorted(order) == list(range(96))
    assert sorted(order.values()) == list(range(96))
    alone = stepped(tmp_path / "alone", [order[n] for n in range(96)], fsync="never")
    found = learned(tenant)
    assert all(found[name] == alone[name] for name in alone.keys() - {"note"})


def test_frozen_streams_answer_and_change_in_nothing(tenant):
    tenant.classify(requests(0, 20))
    tenant.freeze()
    before = learned(tenant)
    tenant.freeze()
    (answer,) = tenant.classify(requests(20, 21))
    assert (answer.learned, answer.why_not, tenant.mode) == (False, "The stream is frozen.", "frozen")
    for change in (lambda: tenant.feedback("0-3", "class 1"), lambda: tenant.evict("0-3"), lambda: tenant.forget("x")):
        with pytest.raises(Frozen, match="resume it"):
            change()
    assert learned(tenant) == before
    tenant.resume()
    assert tenant.mode == "adapting"
    assert tenant.classify(requests(20, 21))[0].seen == 21


def test_a_method_that_learns_nothing_is_zero_shot_only(tmp_path):
    tenant = made(tmp_path / "s", method="zero_shot")
    assert tenant.mode == "zero-shot only"
    (answer,) = tenant.classify(requests(0, 1))
    assert answer.label == answer.zero_shot.label
    with pytest.raises(TrimtabError, match="does not keep which image"):
        tenant.feedback(answer.id, "class 1")
    assert Tenant.open(tenant.folder).summary()["seen"] == 1, "what failed once fails again, and nothing more"


def test_a_correction_moves_or_places_the_image(tenant):
    answers = tenant.classify(requests(0, 40))
    right = next(label for label in TASK.class_names if label != answers[7].label)
    found = tenant.feedback("0-7", right)
    assert found.placed
    assert found.before == answers[7].label

    def held(label=None):
        return {item["id"] for entry in tenant.cache(label) for item in entry["items"]}

    assert "0-7" in held(right)
    assert "0-7" not in held(answers[7].label)
    assert tenant.recent(40)[39 - 7]["corrected"] == right
    assert tenant.evict("0-7") > 0
    assert "0-7" not in held()
    for image in ("0-40", "1-3", "3", "../0-1", 7, "0-99999999999999"):
        with pytest.raises(NoSuchImage):
            tenant.feedback(image, "class 1")
    with pytest.raises(TrimtabError, match="none of the stream's labels"):
        tenant.feedback("0-1", "zebra")


def test_going_back_and_the_ids_of_both_pasts(tenant):
    tenant.classify(requests(0, 20))
    then = learned(tenant)
    snapshot = tenant.take_snapshot("before lunch")
    tenant.classify(requests(20, 40))
    tenant.restore(snapshot.name)
    now = learned(tenant)
    assert all(now[name] == then[name] for name in then.keys() - {"note"})
    assert tenant.classify(requests(50, 51))[0].id == "1-20"
    assert tenant.feedback("0-19", "class 1").placed, "images before the snapshot are known"
    with pytest.raises(NoSuchImage, match="put back or reset"):
        tenant.feedback("0-20", "class 1")
    notes = [each.note for each in tenant.snapshots()]
    assert notes == [f"before going back to {snapshot.name}", "before lunch"]
    tenant.restore(tenant.snapshots()[0].name)
    assert tenant.feedback("0-39", "class 1").placed, "and back again"
    tenant.reset()
    assert tenant.summary()["seen"] == 0
    assert tenant.snapshots()[0].note == "before a reset"
    assert Tenant.open(tenant.folder).summary() == tenant.summary()
    tenant.delete_snapshot(snapshot.name)
    for name in (snapshot.name, "../given/x", "", "V1"):
        with pytest.raises(NoSuchSnapshot):
            tenant.restore(name)


def test_automatic_snapshots_are_a_ring_and_others_stay(tmp_path):
    tenant = made(tmp_path / "s", fsync="never", snapshot_every=10, keep_snapshots=2)
    tenant.classify(requests(0, 5))
    tenant.take_snapshot("mine")
    for first in range(5, 65, 5):
        tenant.classify(requests(first, first + 5))
        tenant._keeper.finish()
    assert [(each.seen, each.automatic) for each in tenant.snapshots()] == [(60, True), (50, True), (5, False)]
    assert all(each.bytes > 1000 and 0 <= each.agreement <= 1 for each in tenant.snapshots())
    assert len(list((tmp_path / "s" / "checkpoints").glob("*.safetensors"))) == 2


def test_states_go_out_and_come_in(tenant, tmp_path):
    tenant.classify(requests(0, 30))
    state = tenant.state_bytes()
    (tmp_path / "state").write_bytes(state)
    assert Stream.load(tmp_path / "state", TASK).seen == 30
    other = made(tmp_path / "other", fsync="never")
    other.put_state(state)
    mine, theirs = learned(tenant), learned(other)
    assert all(mine[name] == theirs[name] for name in mine.keys() - {"note"})
    assert other.classify(requests(30, 31))[0].id == "1-30"
    assert learned(Tenant.open(after_a_kill(other, tmp_path / "killed"))) == learned(other)
    unguarded = made(tmp_path / "unguarded", guard=False, fsync="never")
    for content, sentence in (
        (state[:-1], "not a whole saved state"),
        (state[:-1] + bytes([state[-1] ^ 1]), "checksum differs"),
        (b"nonsense", "not a whole saved state"),
        (unguarded.state_bytes(), "another guard"),
        (made(tmp_path / "tda", method="tda", fsync="never").state_bytes(), "was saved by tda"),
    ):
        before = learned(other)
        with pytest.raises(TrimtabError, match=sentence) as refusal:
            other.put_state(content)
        assert str(tmp_path) not in str(refusal.value), "no path of the server leaves it"
        assert learned(other) == before
    assert not list((tmp_path / "other" / "given").glob(".*"))


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_means_answers_without_learning_until_there_is_space(tenant, tmp_path, monkeypatch):
    tenant.classify(requests(0, 20))
    before = learned(tenant)
    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "write", full)
        answers = tenant.classify(requests(20, 22))
        assert [(answer.learned, answer.durable) for answer in answers] == [(False, False)] * 2
        assert "the disk is full" in answers[0].why_not
        for change in (tenant.freeze, tenant.reset, lambda: tenant.feedback("0-3", "class 1")):
            with pytest.raises(DiskFull, match="the disk is full"):
                change()
        assert learned(tenant) == before
    assert tenant.classify(requests(20, 21))[0].learned
    assert learned(Tenant.open(after_a_kill(tenant, tmp_path / "killed"))) == learned(tenant)


def test_a_real_limit_on_file_size_is_survived(tmp_path):
    """In a process of its own: the limit stays."""
    pid = os.fork()
    if pid == 0:
        import resource

        code = 1
        try:
            tenant = made(tmp_path / "s")
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
            durable = [tenant.classify(requests(n, n + 1))[0].durable for n in range(100)]
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            again = tenant.classify(requests(100, 101))[0]
            seen = Tenant.open(after_a_kill(tenant, tmp_path / "killed")).summary()["seen"]
            code = 0 if 10 < sum(durable) < 100 and again.durable and again.seen == seen == sum(durable) + 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_snapshots_and_restores_on_a_full_disk_change_nothing(tenant, monkeypatch):
    tenant.classify(requests(0, 20))
    name = tenant.take_snapshot().name
    before = learned(tenant)
    with monkeypatch.context() as patch:
        patch.setattr("trimtab.engine.state_io.write_whole", full)
        patch.setattr("trimtab.serve.ledger.write_whole", full)
        for change in (tenant.take_snapshot, lambda: tenant.restore(name), tenant.reset):
            with pytest.raises(DiskFull, match="disk is full"):
                change()
    assert learned(tenant) == before


def test_a_step_that_breaks_off_is_repeated_from_the_journal(tenant, monkeypatch):
    tenant.classify(requests(0, 20))
    with monkeypatch.context() as patch:
        patch.setattr(tenant._ledger.memory.keys, "remember", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tenant.classify([Request(IMAGES[20], key="a")])
    assert tenant.classify([Request(IMAGES[20], key="a")])[0].replayed, "it was in the journal, so it was learned"
    assert tenant.summary()["seen"] == 21


def test_clocks_may_jump(tenant, tmp_path, monkeypatch):
    jumps = iter(np.random.default_rng(0).uniform(-1e9, 4e9, 1000))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    for first in range(0, 40, 4):
        tenant.classify([Request(IMAGES[n], key=str(n)) for n in range(first, first + 4)])
    tenant.take_snapshot("first")
    tenant.classify(requests(40, 44))
    tenant.take_snapshot("second")
    assert [each.note for each in tenant.snapshots()] == ["second", "first"]
    assert learned(Tenant.open(after_a_kill(tenant, tmp_path / "killed"))) == learned(tenant)


def test_lazy_views_are_part_of_what_is_known(tmp_path):
    tenant = made(tmp_path / "s", views=8, view_budget=4, fsync="never")
    random = np.random.default_rng(0)
    for image in IMAGES[:40]:
        views = image + 0.05 * random.normal(size=(8, 64)).astype(np.float32)
        taken = 1
        while (wanted := tenant.views_wanted(views[:taken])) > taken:
            taken = wanted
        tenant.classify([Request(views[:taken])])
    killed = Tenant.open(after_a_kill(tenant, tmp_path / "killed"))
    assert killed._ledger.memory.lazy.note() == tenant._ledger.memory.lazy.note()
    other = made(tmp_path / "other", views=8, view_budget=4, fsync="never")
    other.put_state(tenant.state_bytes())
    assert other._ledger.memory.lazy.note() == tenant._ledger.memory.lazy.note()
