"""The benchmark: plans, runs, records, and what happens when something goes wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from bench_stores import Breaks, make_store
from trimtab.cli.bench import Ran, changes_of
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, make_method
from trimtab.study import bench
from trimtab.study.bench import plan as plans
from trimtab.study.bench.predicting import OrderedRows
from trimtab.study.bench.record import packed, read_record, write_record
from trimtab.study.bench.tuned import TunedParameters
from trimtab.study.costs import gflops_per_image


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores") / "small", views=3)


def run_all(store, out, **details):
    options = {"methods": ["mcp"], "seeds": 2, "weights": ["fixed", "auto", "oracle"], **details}
    plan = bench.make_plan([store.path], **options)
    return plan, bench.run_plan(plan, out, workers=1)


def test_a_run_says_what_the_stream_itself_says(store, tmp_path):
    plan, records = run_all(store, tmp_path)
    assert {(r.about.method, r.about.weights, r.about.seed) for r in records} == {
        ("zero_shot", "fixed", 0),
        ("zero_shot", "fixed", 1),
        *(("mcp", weights, seed) for weights in ("fixed", "auto", "oracle") for seed in (0, 1)),
    }
    for record in records:
        order = order_by_name("shuffled", labels=store.labels, seed=record.about.seed)
        fusion = "auto" if record.about.weights == "auto" else (1.0, 1.0, 1.0)
        method = make_method(record.about.method, **({"fusion": fusion} if record.about.method == "mcp" else {}))
        predicted = method.start(store.task()).run(store.rows(order))
        if record.about.weights != "oracle":
            right = predicted.labels == store.labels[order]
            assert record.accuracy == pytest.approx(right.mean())
            np.testing.assert_array_equal(record.correct_images(), right)
        else:
            fixed = next(r for r in records if r.about.weights == "fixed" and r.about.seed == record.about.seed)
            assert record.accuracy >= fixed.accuracy
            assert record.about.uses_labels
        assert record.cost.gflops_per_image > 0
        assert record.cost.images_per_second > 0
        assert set(record.cost.step_ms) == {"p50", "p90", "p99"}
        assert record.along["accuracy"][-1] == pytest.approx(record.accuracy, abs=1e-4)
    on_disk = bench.read_results(tmp_path)
    assert sorted(map(repr, on_disk.records)) == sorted(map(repr, records))
    assert not on_disk.missing
    assert len(plan.files) == len(set(plan.files)) == len(records)


def test_the_same_command_again_runs_only_what_is_missing(store, tmp_path, monkeypatch):
    plan, first = run_all(store, tmp_path)
    lost = tmp_path / plan.runs[0].files["fixed"]
    lost.write_text("{")  # cut off by a crash of the machine
    done = []
    made = bench.run_plan(plan, tmp_path, workers=1, on_done=lambda run, records: done.append(run))
    assert done == [plan.runs[0]]
    assert made[0].scores == first[0].scores
    assert len(bench.run_plan(plan, tmp_path, workers=1, skip_existing=False)) == len(first)
    monkeypatch.setattr("trimtab.study.bench.results.code_fingerprint", lambda method: "changed since")
    assert len(bench.run_plan(plan, tmp_path, workers=1)) == len(first)


def test_worker_processes_give_the_same_figures(store, tmp_path):
    plan, alone = run_all(store, tmp_path / "alone", seeds=1)
    beside = bench.run_plan(plan, tmp_path / "beside", workers=2)
    figures = [{r.about.method + r.about.weights: r.scores for r in found} for found in (alone, beside)]
    assert figures[0] == figures[1]


def test_a_failing_method_is_recorded_and_the_others_still_run(store, tmp_path, monkeypatch):
    for module in ("trimtab.study.bench.plan", "trimtab.study.bench.runner"):
        monkeypatch.setattr(
            f"{module}.make_method", lambda name, **p: Breaks() if name == "breaks" else make_method(name)
        )
    monkeypatch.setattr(plans, "list_methods", lambda: ["zero_shot", "breaks", "mcp"])
    _, records = run_all(store, tmp_path, methods=["all"], seeds=1, weights=["fixed"])
    status = {record.about.method: (record.status, record.reason) for record in records}
    assert status["breaks"] == ("failed", "FloatingPointError: the fifth image was too much")
    assert status["zero_shot"] == status["mcp"] == ("done", "")
    assert not bench.read_results(tmp_path).missing


def test_weights_that_make_no_difference_are_not_run():
    assert plans.possible_weights(make_method("zero_shot"), ["fixed", "auto", "oracle"]) == ("fixed",)
    assert plans.possible_weights(make_method("mcp"), ["auto", "oracle"]) == ("auto", "oracle")
    assert plans.possible_weights(make_method("dmn"), ["fixed", "auto"]) == ("fixed", "auto")
    assert plans.possible_weights(make_method("zero_vote"), ["fixed", "oracle"]) == ("fixed",)
    with pytest.raises(TrimtabError, match="no weights called 'best'"):
        plans.possible_weights(make_method("mcp"), ["best"])


def test_fewer_views_are_the_first_ones(store):
    order = np.array([5, 3, 9])
    np.testing.assert_array_equal(OrderedRows(store, order, 2)[0:2], store.rows([5, 3])[:, :2])
    run = plans.Run(str(store.path), "small", store.fingerprint, "mcp", views=2)
    assert bench.execute(run)[0].about.views == 2
    with pytest.raises(TrimtabError, match="3 views"):
        bench.execute(plans.Run(str(store.path), "small", store.fingerprint, "mcp", views=4))


def test_ordered_rows_say_whether_their_store_has_checked_them(store):
    for checked in (True, False):
        stand_in = SimpleNamespace(rows_checked=checked, views=3, dim=16, labels=store.labels)
        assert OrderedRows(stand_in, np.array([5, 3])).rows_checked is checked


def test_tuned_parameters_are_an_oracle_only_at_home(store, tmp_path):
    mine = TunedParameters("mine", "mcp", {"align_slots": 2}, store.fingerprint, "small", 5, 0.9, 0.8)
    mine.save(tmp_path / "mine.json")
    assert TunedParameters.load(tmp_path / "mine.json") == mine
    other = make_store(tmp_path / "other", dataset="other", seed=4)
    plan = bench.make_plan([store.path, other.path], ["mcp"], seeds=1, tuned=[mine])
    records = bench.run_plan(plan, tmp_path / "out", workers=1)
    tuned = {r.about.dataset: r.about.uses_labels for r in records if r.about.variant == "mine"}
    assert tuned == {"small": True, "other": False}
    assert not any(r.about.uses_labels for r in records if not r.about.variant)


def test_an_unfinished_folder_says_so(store, tmp_path):
    plan, _ = run_all(store, tmp_path)
    assert bench.read_results(tmp_path).note == ""
    (tmp_path / plan.files[-1]).unlink()
    assert bench.read_results(tmp_path).note.startswith("UNFINISHED: 1 of 8 planned runs")
    with pytest.raises(TrimtabError, match="no folder"):
        bench.read_results(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrimtabError, match="holds no records"):
        bench.read_results(tmp_path / "empty")


def test_nan_becomes_null_and_bits_come_back(store, tmp_path):
    _, records = run_all(store, tmp_path, seeds=1)
    record = records[0]
    record.recall[0] = float("nan")
    write_record(record, tmp_path / "one.json")
    assert json.loads((tmp_path / "one.json").read_text())["recall"][0] is None
    bits = np.random.default_rng(0).random(163) < 0.5
    again = read_record(tmp_path / "one.json").__class__(record.about, correct=packed(bits), labeled=163)
    np.testing.assert_array_equal(again.correct_images(), bits)


def test_bad_plans_are_refused_before_anything_runs(store, tmp_path):
    unlabeled = make_store(tmp_path / "bare")
    bare = unlabeled.from_arrays(
        tmp_path / "none", unlabeled.rows(slice(None)), None, unlabeled.text_prototypes, unlabeled.class_names
    )
    for options, says in [
        ({"methods": ["mpc"]}, "no method 'mpc'"),
        ({"orders": ["sideways"]}, "no order 'sideways'"),
        ({"seeds": 0}, "seeds .the number of orders. must be a whole number of at least 1"),
        ({"parameters": {"mcp": {"align_slots": -1}}}, "align_slots"),
        ({"parameters": {"zero_shots": {}}}, "not among the methods"),
    ]:
        with pytest.raises(TrimtabError, match=says):
            bench.make_plan([store.path], **options)
    with pytest.raises(TrimtabError, match="no labels"):
        bench.make_plan([bare.path])
    with pytest.raises(TrimtabError, match="At least one worker"):
        bench.run_plan(bench.make_plan([store.path]), tmp_path, workers=0)


def test_what_is_named_twice_runs_once(store):
    once = bench.make_plan([store.path], ["tda"], seeds=2)
    assert bench.make_plan([store.path, store.path], ["tda"], orders=["shuffled", "shuffled"], seeds=2) == once


def test_the_command_names_what_all_leaves_out(store, tmp_path, monkeypatch):
    monkeypatch.setattr("trimtab.cli.bench.run_with_progress", lambda *_: Ran(0, 0, 0, []))
    for methods, left_out in [
        ("all", "tpt, ctpt, rtpt, difftpt, promptalign."),
        ("all,tpt", "hours: ctpt,"),
        ("tda", ""),
    ]:
        done = CliRunner().invoke(app, ["bench", str(store.path), "--methods", methods, "-o", str(tmp_path)])
        assert left_out in done.stderr
        assert ("Left out" in done.stderr) == bool(left_out)


def test_settings_on_the_command_line():
    assert changes_of(["mcp.align_slots=5", "mcp.order=predict_first", "mcp.fusion=[1,0,0]"]) == {
        "mcp": {"align_slots": 5, "order": "predict_first", "fusion": (1, 0, 0)}
    }
    with pytest.raises(TrimtabError, match="takes method"):
        changes_of(["align_slots=5"])


def test_the_command_writes_records(store, tmp_path):
    arguments = ["bench", str(store.path), "--methods", "mcp", "--orders", "1", "--weights", "fixed,oracle"]
    done = CliRunner().invoke(app, [*arguments, "--set", "mcp.align_slots=4", "--workers", "1", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    records = bench.read_results(tmp_path).records
    assert {r.about.parameters.get("align_slots") for r in records} == {None, 4}
    assert {r.about.variant for r in records} == {"", "align_slots=4"}


@pytest.fixture
def benchmark(tmp_path):
    """A real benchmark in a process of its own, with two workers, that has just written its first records."""
    big = make_store(tmp_path / "big", images=4000)
    # A process that was started in the background ignores interrupts, and so would its children.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{listen}; from trimtab.cli.main import run; run()"]
    command += ["bench", str(big.path), "--methods", "mcp", "--orders", "6", "--weights", "fixed", "--workers", "2"]
    command += ["-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(tmp_path.glob("out/*/*/*.json"))) < 2:
        time.sleep(0.05)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    yield process, workers
    for left in (process, *workers):
        with suppress(psutil.NoSuchProcess):
            left.kill()
    process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_ctrl_c_keeps_what_is_done_leaves_no_worker_and_can_be_continued(benchmark, tmp_path):
    process, workers = benchmark
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Interrupted" in errors
    assert not psutil.wait_procs(workers, timeout=5)[1], "a worker is left"
    out, plan = tmp_path / "out", bench.make_plan([tmp_path / "big"], ["mcp"], seeds=6)
    found = bench.read_results(out)
    assert found.records
    assert all(record.ok for record in found.records)
    assert len(found.records) + len(found.missing) == len(plan.files) == 12
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert files == {"plan.json", *plan.files} - set(found.missing), "something unfinished is left"
    assert len(bench.run_plan(plan, out, workers=1)) == len(found.missing)
    assert not bench.read_results(out).missing


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_workers_end_with_a_benchmark_that_is_killed(benchmark):
    process, workers = benchmark
    process.kill()
    assert not psutil.wait_procs(workers, timeout=20)[1], "a worker is left"


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_a_killed_worker_ends_the_benchmark_in_one_sentence(store, tmp_path):
    """As the system does when memory runs out: what was finished is kept, and no worker is left."""
    plan = bench.make_plan([store.path], ["mcp"], seeds=6)

    def kill_one(run, records):
        for worker in workers_of(os.getpid())[:1]:
            worker.kill()

    with pytest.raises(TrimtabError, match="fewer --workers"):
        bench.run_plan(plan, tmp_path, workers=2, on_done=kill_one)
    found = bench.read_results(tmp_path)
    assert found.records
    assert found.missing
    assert not workers_of(os.getpid())


def workers_of(process):
    """The worker processes of a pool: the children that `multiprocessing` has spawned to run something."""
    found = []
    for child in psutil.Process(process).children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_every_method_has_a_count_of_operations_that_grows_with_the_task():
    for name in list_methods():
        method = make_method(name)
        sizes = ((10, 64), (10, 128), (20, 64))
        passes = {"text_pass": 100.0, "image_pass": 1000.0}
        small, wide, many = (gflops_per_image(method, classes=c, dim=d, views=1, **passes) for c, d in sizes)
        assert small is not None, f"{name} has no count in trimtab.study.costs"
        assert 0 < small < wide
        assert small < many


def test_counts_by_hand():
    """MCP at C = 2, d = 4, V = 3: texts 3x2, items 2x(1+1+1), all of 8 operations; norms of 3 items; masks."""
    method = make_method("mcp", entropy_slots=1, align_slots=1, negative_slots=1)
    found = gflops_per_image(method, classes=2, dim=4, views=3)
    assert found == pytest.approx((3 * 2 * 8 + 2 * 3 * 8 + 2 * 2 * 3 * 3 + 2 * 2 * 1 * 2) / 1e9)
