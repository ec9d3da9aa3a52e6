"""What a served stream shows: events, a bounded history, caches and thumbnails; and that old folders open."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from serve_case import IMAGES, TASK, made, requests
from trimtab.serve import Request, Tenant, history, thumbnails

GOLDEN = Path(__file__).parent / "golden" / "serve-journal-1"


@pytest.fixture
def tenant(tmp_path):
    return made(tmp_path / "s", fsync="never", thumbnails=True)


def test_who_listens_hears_everything_and_cannot_break_anything(tenant):
    events = []
    stop = tenant.listen(events.append)
    tenant.listen(lambda event: 1 / 0)
    tenant.classify(requests(0, 30))
    tenant.classify([Request(IMAGES[0])])
    tenant.feedback("0-3", "class 1")
    tenant.evict("0-3")
    tenant.freeze()
    tenant.take_snapshot()
    kinds = {event["kind"] for event in events}
    assert {"step", "write", "guard", "correction", "eviction", "mode", "snapshot"} <= kinds
    json.dumps(events)
    steps = [event for event in events if event["kind"] == "step"]
    assert [event["id"] for event in steps] == [f"0-{n}" for n in range(31)]
    duplicate = next(event for event in events if event["kind"] == "guard")
    assert "near-duplicate" in duplicate["why_not"]
    stop()
    count = len(events)
    tenant.resume()
    assert len(events) == count


def test_history_is_bounded_and_counts_right(tenant, monkeypatch):
    monkeypatch.setattr(history, "MOST_BINS", 4)
    answers = [answer for first in range(0, 300, 20) for answer in tenant.classify(requests(first, first + 20))]
    shown = tenant.history()
    json.dumps(shown)
    assert shown["total"] == 300
    assert shown["seen"][-1] == 300
    assert len(shown["seen"]) <= 4
    per_bin = shown["images_per_bin"]
    for name, values in (("agreement", [a.agree for a in answers]), ("flips", [a.flipped for a in answers])):
        expected = [np.mean(values[first : first + per_bin]) for first in range(0, 300, per_bin)]
        assert shown[name] == pytest.approx(expected)
    balance = shown["balance"]
    named = [answer.label for answer in answers]
    assert balance["now"] == [named[-256:].count(label) / 256 for label in TASK.class_names]
    assert balance["first"] == [named[:256].count(label) / 256 for label in TASK.class_names]
    assert len(tenant.recent(1000)) == history.RECENT
    assert [entry["id"] for entry in tenant.recent(2)] == ["0-299", "0-298"]
    assert [entry["id"] for entry in tenant.flips(5)] == [a.id for a in answers if a.flipped][::-1][:5]


def test_guard_alarms_are_marked_and_told(tmp_path):
    tenant = made(tmp_path / "s", fsync="never", guard_parameters={"gap": 0, "strange": 0, "start_over": 0.25})
    events = []
    tenant.listen(events.append)
    with tenant._awake() as ledger:
        watch = ledger.memory.stream.watch
        watch.has_to_start_over = lambda: bool(watch.events.__setitem__(0, watch.events[0] + 1)) or True
    tenant.classify(requests(0, 80))
    assert any(event["kind"] == "guard" and "forgotten" in event["why_not"] for event in events)
    assert any(event["kind"] == "guard" and "forgotten" in event["text"] for event in tenant.history()["events"])


def test_caches_show_what_they_hold(tenant):
    tenant.classify(requests(0, 60))
    shown = tenant.cache()
    assert [entry["label"] for entry in shown] == list(TASK.class_names)
    items = [item for entry in shown for item in entry["items"]]
    assert len(items) > 20
    for item in items:
        assert item["id"] == f"0-{item['position']}"
        assert item["age"] == 60 - item["position"]
        assert 0 <= item["entropy"] <= np.log(6) + 1e-6
    assert {item["cache"] for item in items} <= {"entropy", "align", "negative"}
    health = tenant.health()
    assert health["seen"] == 60
    json.dumps([shown, health])


def picture(color):
    file = io.BytesIO()
    Image.new("RGB", (300, 200), color).save(file, "PNG")
    return file.getvalue()


def test_thumbnails_are_kept_only_if_asked_for_bounded_and_deletable(tenant, tmp_path, monkeypatch):
    small = thumbnails.make_thumbnail(picture("red"))
    with Image.open(io.BytesIO(small)) as image:
        assert image.size == (128, 85)
    monkeypatch.setattr(thumbnails, "MOST", 16)
    for first in range(0, 60, 5):
        tenant.classify([Request(image, picture=small) for image in IMAGES[first : first + 5]])
    held = {item["id"] for entry in tenant.cache() for item in entry["items"]}
    kept = {path.stem for path in (tmp_path / "s" / "thumbnails").iterdir()}
    assert len(kept) <= 16 + 16 // 8 + len(held)
    assert tenant.thumbnail("0-59") == small
    for name in ("../stream", "0-59.jpg", "", "0-999", None):
        assert tenant.thumbnail(name) is None
    assert tenant.drop_thumbnails() == len(kept)
    assert tenant.thumbnail("0-59") is None
    plain = made(tmp_path / "plain", fsync="never")
    plain.classify([Request(IMAGES[0], picture=small)])
    assert plain.thumbnail("0-0") is None


def test_a_journal_of_the_first_version_is_read(tmp_path):
    """Written once, by the first version; never to be written again. States have versions of their own."""
    shutil.copytree(GOLDEN / "s", tmp_path / "s")
    expected = json.loads((GOLDEN / "expected.json").read_text())
    tenant = Tenant.open(tmp_path / "s")
    assert [entry["id"] for entry in tenant.recent(100)] == expected["ids"]
    assert tenant.history()["corrections"] == expected["corrections"]
    assert {name: tenant.summary()[name] for name in expected["summary"]} == expected["summary"]
    assert tenant.classify(requests(0, 1, key="k0"))[0].replayed
    tenant.resume()
    assert tenant.classify(requests(30, 31))[0].seen == expected["summary"]["seen"] + 1
