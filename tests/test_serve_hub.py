"""Many streams in one folder: one server, bounds on memory, sleep and waking, and settings that are refused."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from serve_case import IMAGES, TASK, learned, requests, settings
from trimtab.errors import TrimtabError
from trimtab.serve import Hub, Request, StreamSettings
from trimtab.serve.refusals import Damaged, NoSuchStream, StreamExists


@pytest.fixture
def hub(tmp_path):
    hub = Hub.open(tmp_path / "hub")
    yield hub
    hub.close()


def create(hub, name, **given):
    return hub.create(settings(name=name, fsync="never", **given), TASK.text_prototypes, TASK.logit_scale)


def test_streams_live_beside_each_other_and_survive_a_restart(hub, tmp_path):
    for name in ("b", "a"):
        create(hub, name)
    hub.get("a").classify(requests(0, 40))
    hub.get("b").classify(requests(10, 60))
    known = {name: learned(hub.get(name)) for name in hub.names()}
    hub.close()
    with Hub.open(tmp_path / "hub") as again:
        assert again.names() == ["a", "b"]
        assert [(each["name"], each["awake"], each["seen"]) for each in again.summaries()] == [
            ("a", False, 40),
            ("b", False, 50),
        ], "they sleep until they are needed"
        assert {name: learned(again.get(name)) for name in again.names()} == known
        again.delete("a")
        assert again.names() == ["b"]
        with pytest.raises(NoSuchStream):
            again.get("a")
        assert not list((tmp_path / "hub" / "streams").glob("*a*"))


def test_a_second_server_on_the_folder_is_refused_until_the_first_has_gone(hub, tmp_path):
    with pytest.raises(TrimtabError, match="Another process is writing to"):
        Hub.open(tmp_path / "hub")
    script = f"from trimtab.serve import Hub; Hub.open({str(tmp_path / 'hub')!r})"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Another process is writing to" in other.stderr
    hub.close()
    Hub.open(tmp_path / "hub").close()


def test_names_are_taken_once_and_never_lead_out_of_the_folder(hub):
    create(hub, "a")
    with pytest.raises(StreamExists, match="already"):
        create(hub, "a")
    for name in ("..", "a/b", "/etc", "A", "", "a" * 65, "-a", "a\n", "ä", 3, None):
        with pytest.raises(TrimtabError):
            settings(name=name)
        with pytest.raises(TrimtabError):
            hub.get(name)
        with pytest.raises(TrimtabError):
            hub.delete(name)


def test_memory_is_bounded_and_sleepers_know_all_when_they_wake(tmp_path):
    with Hub.open(tmp_path / "hub", memory=1, awake=100) as hub:
        names = [f"s{n}" for n in range(6)]
        for name in names:
            create(hub, name)
        for turn in range(3):
            for name in names:
                hub.get(name).classify(requests(20 * turn, 20 * turn + 20))
                assert hub.figures()["awake"] == 1, "one alone is beyond the bound, and stays while it is used"
        states = [learned(hub.get(name)) for name in names]
        arrays = [{name: state[name] for name in state.keys() - {"note"}} for state in states]
        assert all(each == arrays[0] for each in arrays)
    with Hub.open(tmp_path / "hub", awake=2) as hub:
        for name in names:
            hub.get(name).health()
        assert hub.figures()["awake"] == 2
        assert [hub.get(name).bytes > 0 for name in names] == [False] * 4 + [True] * 2


def test_streams_that_nobody_uses_go_to_sleep_whatever_the_clock_says(hub, monkeypatch):
    tenant = create(hub, "a")
    tenant.classify(requests(0, 40))
    known = learned(tenant)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    hub.put_idle_to_sleep()
    assert tenant.summary()["awake"]
    later = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with tenant._lock:
        hub_thread = threading.Thread(target=hub.put_idle_to_sleep)
        hub_thread.start()
        hub_thread.join()
        assert tenant.summary()["awake"], "one that is being used is left alone"
    hub.put_idle_to_sleep()
    assert tenant.summary() == {**tenant.summary(), "awake": False, "seen": 40}
    assert learned(tenant) == known


def test_many_threads_on_few_places(tmp_path):
    with Hub.open(tmp_path / "hub", awake=2) as hub:
        for n in range(6):
            create(hub, f"s{n}", method="tda")
        failures = []

        def client(offset):
            try:
                for n in range(offset, offset + 60):
                    hub.get(f"s{n % 6}").classify([Request(IMAGES[n], key=f"{n}")])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=client, args=(offset,)) for offset in (0, 20, 40, 60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sum(hub.get(f"s{n}").summary()["seen"] for n in range(6)) == 120


def test_one_damaged_stream_does_not_stop_the_others(hub, tmp_path):
    for name in ("good", "bad"):
        create(hub, name)
    hub.close()
    (tmp_path / "hub" / "streams" / "bad" / "stream.json").write_text("{}")
    leftover = tmp_path / "hub" / "streams" / ".new-half-00"
    leftover.mkdir()
    with Hub.open(tmp_path / "hub") as again:
        assert again.names() == ["good"]
        with pytest.raises(Damaged, match=r"stream\.json"):
            again.get("bad")
        with pytest.raises(StreamExists):
            create(again, "bad")
        assert not leftover.exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"labels": ["a"]}, "from 2 to"),
        ({"labels": "a,b"}, "must be a list of names"),
        ({"labels": ["a", "b", "a"]}, "'a' more than once"),
        ({"method": "nonsense"}, "no method 'nonsense'"),
        ({"method": "tpt"}, "cannot be served"),
        ({"parameters": {"nonsense": 1}}, "has no parameter 'nonsense'"),
        ({"guard_parameters": {"nonsense": 1}}, "guard has no parameter 'nonsense'"),
        ({"guard": False, "unknown": True}, "leave guard on"),
        ({"fsync": "sometimes"}, "fsync must be one of always, group, never"),
        ({"views": 0}, "views must be"),
        ({"view_budget": 3}, "view_budget must be"),
        ({"quota": 0}, "quota must be"),
        ({"keep_snapshots": 0}, "keep_snapshots must be"),
        ({"thumbnails": 1}, "thumbnails must be True or False"),
        ({"speed": 1}, "no setting 'speed'"),
        ({"labels": ["a", "\ud800"]}, "half a character"),
    ],
)
def test_settings_are_refused_in_a_sentence(given, sentence):
    with pytest.raises(TrimtabError, match=sentence):
        settings(**given)


def test_settings_are_data():
    chosen = settings(method="tda", parameters={"positive_slots": 2}, unknown=True, templates=["a {}"], quota=60)
    assert StreamSettings.from_dict(chosen.to_dict()) == chosen
    for wrong in (None, [], {"labels": ["a", "b"]}, {"name": "a"}):
        with pytest.raises(TrimtabError):
            StreamSettings.from_dict(wrong)


def test_text_that_does_not_fit_is_refused_and_leaves_nothing(hub, tmp_path):
    with pytest.raises(TrimtabError, match="one prototype per class"):
        hub.create(settings(name="a"), np.eye(3, 64, dtype=np.float32))
    assert hub.names() == []
    assert not list((tmp_path / "hub" / "streams").iterdir())
