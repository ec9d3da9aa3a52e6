"""The same work on Ray: equal bytes, equal records, and one sentence for what can go wrong.

All of it on one small cluster; what happens when nodes die is in `python -m tests.audit.cluster_losses`.
"""

import json
import socket
import sys

import numpy as np
import pytest

from bench_stores import make_store
from trimtab.cluster import session
from trimtab.engine.state_io import read_state
from trimtab.errors import TrimtabError
from trimtab.registry import DEFAULT_METHOD
from trimtab.study.bench import make_plan, run_plan

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    with session.ray_session(cores=2) as found:
        yield found


def test_an_address_that_does_not_answer_is_refused_at_once(monkeypatch):
    for address, words in [
        ("127.0.0.1:9", r"There is no Ray cluster at 127.0.0.1:9: it does not answer \("),
        ("somewhere", "--address takes host:port, ray://host:port or auto"),
        ("host:port", "--address takes host:port, ray://host:port or auto"),
    ]:
        with pytest.raises(TrimtabError, match=words), session.ray_session(address):
            pass
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = session.ray_session(f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(TrimtabError, match=r"it does not answer \(timed out\)"), silent:
            pass


def test_a_running_cluster_is_known_by_its_answer(cluster):
    host, _, port = cluster.get_runtime_context().gcs_address.rpartition(":")
    with socket.create_connection((host, int(port)), session.ANSWER_SECONDS) as connection:
        assert session._speaks_http2(connection)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(TrimtabError, match=r"--engine ray needs the package ray; run: pip install 'trimtab\[cluster\]'"),
        session.ray_session(),
    ):
        pass


def test_other_versions_on_a_worker_are_refused():
    ours = session.versions()
    session.check_versions(ours)
    with pytest.raises(TrimtabError, match=r"has trimtab .*, not 9.9.9; install the same on all machines"):
        session.check_versions(("9.9.9", *ours[1:]))


def test_what_goes_wrong_elsewhere_is_said_here():
    errors = ray.exceptions
    for error, words in [
        (errors.OutOfMemoryError("a page of text"), "A node has no memory left for this work"),
        (errors.WorkerCrashedError(), "A worker was lost again and again"),
        (_task_error(TrimtabError("the disk is full.")), "^the disk is full.$"),
        (_task_error(ModuleNotFoundError("x", name="onnxruntime")), "A worker lacks the package onnxruntime"),
        (_task_error(PermissionError(13, "Permission denied")), "A worker cannot read or write"),
    ]:
        with pytest.raises(TrimtabError, match=words), session.sentences(ray):
            raise error
    with pytest.raises(errors.RayTaskError), session.sentences(ray):  # a bug is shown as one
        raise _task_error(ZeroDivisionError("x"))


def _task_error(cause):
    return ray.exceptions.RayTaskError("work", "a traceback", cause)


@pytest.mark.slow
@pytest.mark.fetches("cifar10")
def test_encoding_gives_the_bytes_of_one_machine(cluster, tmp_path):
    from trimtab.cluster.encode import encode_on_ray
    from trimtab.data import load_dataset
    from trimtab.encoders import load_encoder
    from trimtab.features.encode import encode_images
    from trimtab.features.encode_shards import encode_shards
    from trimtab.features.encoding import plan_encoding

    images, lite = load_dataset("cifar10"), load_encoder("lite")
    options = {"limit": 44, "views": 2, "batch": 10}
    here = encode_images(images, lite, out=tmp_path / "here", shard_images=11, **options)
    plan = plan_encoding(images, lite, **options)
    encode_shards(plan, lite, tmp_path / "there", shard_images=11, only=(3, 4))  # as if a run had been killed
    told = []
    there = encode_on_ray(plan, lite, tmp_path / "there", progress=lambda *done: told.append(done))
    assert told == [(11, 44), (22, 44), (33, 44), (44, 44)]
    assert there.fingerprint == here.fingerprint
    files = {path.name: path.read_bytes() for path in here.path.iterdir()}
    assert {path.name: path.read_bytes() for path in there.path.iterdir()} == files
    assert encode_on_ray(plan, lite, tmp_path / "there").fingerprint == here.fingerprint  # nothing to do


@pytest.mark.slow
def test_a_benchmark_gives_the_records_of_one_machine(cluster, tmp_path, monkeypatch):
    from trimtab.cluster.bench import runs_on_ray

    make_store(tmp_path / "store", images=80)
    monkeypatch.chdir(tmp_path)
    plan = make_plan(["store"], ["tda", "mcp"], seeds=1, weights=["fixed", "auto"])
    here = {str(record.about): record for record in run_plan(plan, "here", workers=1)}
    done = []
    there = run_plan(plan, "there", on_done=lambda run, _: done.append(str(run)), elsewhere=runs_on_ray())
    assert sorted(done) == sorted(map(str, plan.runs))
    assert {str(record.about) for record in there} == set(here)
    for record in there:
        assert record.scores == here[str(record.about)].scores
        assert record.correct == here[str(record.about)].correct
    again = run_plan(plan, "there", elsewhere=runs_on_ray())
    assert again == []
    record = json.loads(next((tmp_path / "there" / "small").rglob("mcp-auto*.json")).read_text())
    assert record["about"]["store"] == "store"
    assert np.isfinite(record["cost"]["seconds"])


@pytest.mark.slow
def test_streams_on_actors_give_the_bits_of_one_machine(cluster, tmp_path):
    from trimtab.cluster.adapt import adapt_streams
    from trimtab.cluster.adapt_plan import AdaptPlan

    store = make_store(tmp_path / "store", images=90)
    plan = AdaptPlan(str(store.path), store.fingerprint, DEFAULT_METHOD, streams=2, merge_every=15, order="shuffled")
    here, told = adapt_streams(plan, tmp_path / "here"), []
    there = adapt_streams(plan, tmp_path / "there", ray=True, progress=lambda *done: told.append(done))
    assert told == [(30, 90), (60, 90), (90, 90)]
    assert np.array_equal(there.labels, here.labels)
    ours, theirs = (read_state(adapted.snapshots[0]) for adapted in (here, there))
    assert ours.note == theirs.note
    assert all(np.array_equal(ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)
