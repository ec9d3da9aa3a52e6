"""The commands of a study: JSON on standard output, full disks, files in the way, scripts without a guard."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bench_stores import Breaks, make_store, small_files
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.study import bench
from trimtab.study.bench import plan as plans

needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores") / "small", images=80)


@pytest.fixture(scope="module")
def results(store, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    bench.run_plan(bench.make_plan([store.path], ["mcp"], seeds=2, weights=["fixed", "auto"]), out, workers=1)
    return out


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def bench_command(store, out, *more):
    return (
        "bench",
        store.path,
        "--methods",
        "mcp",
        "--orders",
        1,
        "--weights",
        "fixed",
        "--workers",
        1,
        "-o",
        out,
        *more,
    )


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("bench", "records_written"),
        ("report", "figures"),
        ("compare", "pairs"),
        ("theory", "bounds"),
        ("tune", "parameters"),
        ("ablate", "points"),
        ("methods", "parameters"),
        ("data", "of_the_paper"),
    ],
)
def test_json_is_all_that_stands_on_standard_output(store, results, tmp_path, verb, key):
    arguments = {
        "bench": bench_command(store, tmp_path / "out"),
        "report": ("report", results, "-o", tmp_path),
        "compare": ("compare", results, results),
        "theory": ("theory", store.path),
        "tune": ("tune", store.path, "--trials", 2, "-o", tmp_path / "mine.json"),
        "ablate": ("ablate", "negative-size", store.path, "--orders", 1, "--workers", 1, "-o", tmp_path / "out"),
        "methods": ("methods", "mcp"),
        "data": ("data",),
    }[verb]
    done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.output
    assert done.stdout.isascii()
    assert key in json.loads(done.stdout)


def test_the_figures_in_json_are_those_of_the_records(results):
    found = bench.read_results(results).records
    figures = json.loads(invoke("report", results, "--json").stdout)["figures"]
    assert {(f["method"], f["weights"]) for f in figures} == {
        *(("zero_shot", weights) for weights in ("fixed", "auto")),
        *(("mcp", weights) for weights in ("fixed", "auto")),
    }
    for figure in figures:
        own = "fixed" if figure["method"] == "zero_shot" else figure["weights"]
        records = [r for r in found if (r.about.method, r.about.weights) == (figure["method"], own)]
        assert figure["accuracy"] == pytest.approx(100 * sum(r.accuracy for r in records) / 2)
        assert figure["nll"] == pytest.approx(sum(r.scores["nll"] for r in records) / 2)
        assert figure["images"] == 80


def test_one_method_or_data_set_in_json():
    assert {"mcp", "tda"} <= {method["name"] for method in json.loads(invoke("methods", "--json").stdout)}
    assert isinstance(invoke("data", "nothing-like-it", "--json").exception, TrimtabError)


def test_a_failed_run_ends_with_one_and_is_named(store, tmp_path, monkeypatch):
    for module in ("trimtab.study.bench.plan", "trimtab.study.bench.runner"):
        monkeypatch.setattr(
            f"{module}.make_method", lambda name, **p: Breaks() if name == "breaks" else make_method(name)
        )
    monkeypatch.setattr(plans, "list_methods", lambda: ["zero_shot", "breaks"])
    done = invoke("bench", store.path, "--orders", 1, "--workers", 1, "-o", tmp_path, "--json")
    assert done.exit_code == 1
    (failure,) = json.loads(done.stdout)["failed"]
    assert (failure["method"], failure["reason"]) == ("breaks", "FloatingPointError: the fifth image was too much")
    assert "failed: breaks on small" in done.stderr


def test_a_file_where_a_folder_is_meant_is_refused_before_any_work(store, results, tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("mine")
    for arguments in (
        bench_command(store, file),
        ("report", results, "-o", file),
        ("ablate", "caches", store.path, "-o", file),
    ):
        assert f"{file} is a file; give a folder" in str(invoke(*arguments).exception)
    with pytest.raises(TrimtabError, match="is a file"):
        bench.run_plan(bench.make_plan([store.path], ["mcp"]), file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bench", "STORE", "--weights", ","), "--weights ',' names nothing"),
        (("bench", "STORE", "--methods", ""), "--methods '' names nothing"),
        (("tune", "STORE", "--images", -1), "images must be a whole number of at least 1, not -1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(store, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    done = invoke(*(store.path if word == "STORE" else word for word in arguments))
    assert isinstance(done.exception, TrimtabError)
    assert says in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_no_negative_number_of_rows(store):
    done = invoke("theory", store.path, "--rows", -1)
    assert done.exit_code == 2
    assert "Invalid value for '--rows'" in done.output
    assert "(median)" in invoke("theory", store.path, "--rows", 0).output


@needs_limits
def test_a_full_disk_ends_in_one_sentence_and_leaves_nothing_half_written(store, results, tmp_path):
    out = tmp_path / "out"
    cases = {
        "zero_shot-fixed": (1000, bench_command(store, out)),
        "report.md": (1000, ("report", results, "-o", out / "report")),
        "caches-small.png": (15000, ("ablate", "caches", store.path, "--orders", 1, "--workers", 1, "-o", out / "a")),
    }
    for name, (size, arguments) in cases.items():
        with small_files(size):
            done = invoke(*arguments)
        assert isinstance(done.exception, TrimtabError), done.output
        assert name in str(done.exception)
        assert "cannot be written: File too large" in str(done.exception)
    assert not [path.name for path in out.rglob("*.part")]
    for path in out.rglob("*.json"):
        json.loads(path.read_text())
    assert invoke(*cases["zero_shot-fixed"][1]).exit_code == 0, "what was begun can be continued"


def test_a_report_whose_reader_stops_reading_is_written(results, tmp_path):
    command = [sys.executable, "-m", "trimtab", "report", str(results), "-o", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert b"Traceback" not in errors
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.tex", "report.html"}


SCRIPT = """
from trimtab.study.bench import make_plan, run_plan
plan = make_plan([{store!r}], ["mcp"], seeds=2)
run_plan(plan, {out!r}, workers=2)
"""


@pytest.mark.parametrize("piped", [False, True])
def test_a_script_that_workers_cannot_read_again_hears_why(store, tmp_path, piped):
    text = SCRIPT.format(store=str(store.path), out=str(tmp_path / "out"))
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, "-" if piped else str(script)]
    done = subprocess.run(command, input=text if piped else None, capture_output=True, text=True)
    said = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "memory" not in done.stderr
    assert ("save it as a file" if piped else 'if __name__ == "__main__":') in said
    assert done.stderr.count("Traceback") == 1, "the workers themselves say nothing"


def test_a_script_with_a_guard_works(store, tmp_path):
    text = SCRIPT.format(store=str(store.path), out=str(tmp_path / "out"))
    script = tmp_path / "script.py"
    script.write_text(text.replace("run_plan(plan", 'if __name__ == "__main__":\n    run_plan(plan'))
    subprocess.run([sys.executable, str(script)], check=True)
    assert len(bench.read_results(tmp_path / "out").records) == 4


@pytest.mark.parametrize(("verb"), ["bench", "report", "compare", "ablate", "theory", "tune"])
def test_help_has_examples_of_its_own(verb):
    shown = invoke(verb, "--help").output
    assert "\n  Examples:\n    trimtab " in shown
    assert f"    trimtab {verb} " in shown
    assert "--json" in shown
