"""Studies that are started wrongly say so in one sentence, with exit code 2, before they compute anything."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fusion_study.stores import load_stores
from benchmarks.fusion_study.streams import ORDERS, arranged
from benchmarks.synthetic import make_features
from trimtab.errors import TrimtabError

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # imported by another study

# Every study that takes the name of a folder of stores, with words that are right; FOLDER stands for the folder.
OVER_STORES = {
    "method_study": "FOLDER mcp,mcp:auto-orderless shuffled 1",
    "answers_study": "FOLDER mcp shuffled",
    "few_labels_study": "FOLDER mcp 2 1",
    "groups_study": "FOLDER 2,8",
    "names_study": "FOLDER known shuffled",
    "merging": "FOLDER mcp 2 10 1",
    "fusion_study": "FOLDER results.jsonl",
    "fusion_study.strengths": "FOLDER",
    "guard_study.attacks": "FOLDER out mcp 100 1",
    "guard_study.corrections": "FOLDER mcp 1",
    "guard_study.frozen": "FOLDER mcp 10 1",
    "guard_study.windows": "FOLDER mcp drift 1",
    "guard_study.visible": "FOLDER mcp 1",
    "guard_study.unknowns": "FOLDER 1",
    "tenants": "FOLDER/store.npz",
}
OTHER = {
    "large_labels": "10 10",
    "lazy_study": "mcp 2 FOLDER",
    "long_streams": "FOLDER 1",
    "cluster": "merging",
    "guard_study.table": "FOLDER",
    "guard_study.figure": "FOLDER figure.png",
    "fusion_study.tables": "FOLDER",
    "fusion_study.stores": "FOLDER",
    "fusion_study.unseen": "FOLDER",
    "fusion_study.second_encoder": "FOLDER",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, labels, text = make_features(5, 16, 1, 60, seed=0)
    (tmp_path / "stores").mkdir()
    np.savez("stores/small.npz", features=features, labels=labels, text=text)
    return Path("stores")


@pytest.fixture
def said(monkeypatch, capsys):
    """What a study prints to standard error when it refuses its words, and that it prints nothing else."""

    def start(study, *words):
        monkeypatch.setattr(sys, "argv", [study, *words])
        with pytest.raises(SystemExit) as stop:
            runpy.run_module(f"benchmarks.{study}", run_name="__main__", alter_sys=True)
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        assert not out
        assert err.startswith(f"python -m benchmarks.{study}: ")
        assert err.count("\n") == 1
        return err

    return start


def test_every_study_is_known_here():
    started = {path for path in ROOT.glob("benchmarks/**/*.py") if "\n    run_study(" in path.read_text()}
    names = {".".join(path.relative_to(ROOT / "benchmarks").with_suffix("").parts) for path in started}
    assert {name.removesuffix(".__main__") for name in names} == {*OVER_STORES, *OTHER}


@pytest.mark.parametrize("study", OVER_STORES)
def test_a_folder_without_stores_is_named(study, said, tmp_path):
    words = [word.replace("FOLDER", str(tmp_path / "nowhere")) for word in OVER_STORES[study].split()]
    assert f"There are no stores (.npz files) in {tmp_path / 'nowhere'}" in said(study, *words)


@pytest.mark.parametrize("study", [study for study in OVER_STORES if study not in ("guard_study.unknowns", "tenants")])
def test_a_store_that_is_not_there_is_named(study, said, folder):
    words = [word.replace("FOLDER", str(folder)).replace("known", "small") for word in OVER_STORES[study].split()]
    assert "There is no store 'large' in stores; it holds small." in said(study, *words, "large")


@pytest.mark.parametrize(
    ("study", "words", "sentence"),
    [
        ("method_study", "FOLDER mpc shuffled 1", "There is no method 'mpc'; the methods are zero_shot,"),
        ("method_study", "FOLDER mcp,keel, shuffled 1", "the method's name must be a word"),
        ("method_study", "FOLDER mcp:order shuffled 1", "fusion must be 'auto', 'auto-orderless' or"),
        ("method_study", "FOLDER mcp shufled 1", "ORDERS must be one of all, shuffled, class-sorted,"),
        ("method_study", "FOLDER mcp shuffled,domains 0", "SEEDS must be a whole number of at least 1, not 0."),
        ("method_study", "FOLDER mcp shuffled two", "SEEDS must be a whole number of at least 1, not 'two'."),
        (
            "method_study",
            "FOLDER mcp",
            "required: ORDERS, SEEDS; the form is: python -m benchmarks.method_study",
        ),
        ("answers_study", "FOLDER mpc shuffled", "There is no method 'mpc'"),
        ("names_study", "FOLDER large shuffled", "There is no store 'large' in stores"),
        ("guard_study.windows", "FOLDER mcp drifting 1", "domains, open-set, drift, poisoned, not 'drifting'."),
        ("guard_study.visible", "FOLDER mcp 1", "give two of stores."),
        ("guard_study.unknowns", "FOLDER 1", "There is no store 'lite_cifar10' in stores"),
        ("guard_study.table", "FOLDER", "stores holds no outcomes; python -m benchmarks.guard_study.attacks"),
        ("guard_study.figure", "FOLDER figure.png", "stores holds no outcomes"),
        ("tenants", "FOLDER/small.npz", "small.npz knows no domains"),
        ("tenants", "FOLDER/small.npz mcp many", "SEEDS must be a whole number"),
        ("merging", "FOLDER mcp 2 10,x 1", "EVERY must be a whole number of at least 1, not 'x'."),
        ("large_labels", "x", "required: IMAGES"),
        ("large_labels", "x 10", "CLASSES must be a whole number of at least 1, not 'x'."),
        ("large_labels", "10 10 mpc", "There is no method 'mpc'"),
        ("lazy_study", "mcp 2 FOLDER", "stores"),
        ("long_streams", "FOLDER x", "SEEDS must be a whole number"),
        ("cluster", "merge", "PART must be one of overhead, merging, recovery, not 'merge'."),
        ("fusion_study.tables", "FOLDER/nothing", "nothing cannot be read or written: No such file or directory."),
        ("fusion_study.stores", "FOLDER/small.npz", "small.npz cannot be read or written: File exists."),
        ("fusion_study.unseen", "FOLDER/small.npz", "small.npz cannot be read or written: File exists."),
        ("fusion_study.stores", "FOLDER more", "Unrecognized arguments: more; the form is:"),
    ],
)
def test_wrong_words_are_one_sentence(study, words, sentence, said, folder):
    assert sentence in said(study, *(word.replace("FOLDER", str(folder)) for word in words.split()))


def test_an_order_that_a_store_does_not_have_is_refused_where_it_comes(folder):
    (store,) = load_stores(folder)
    with pytest.raises(TrimtabError, match="small knows no domains; leave out the order 'domains', or this store"):
        arranged(store, "domains", 0)
    for order in ORDERS:
        if order != "domains":
            assert len(arranged(store, order, 0).indices)


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"text", "bad.npz is not an .npz file"), (None, "bad.npz has no array 'text'")]
)
def test_a_file_that_is_no_store_is_refused(content, sentence, folder):
    bad = folder / "bad.npz"
    if content is None:
        np.savez(bad, features=np.eye(3), labels=np.arange(3))
    else:
        bad.write_bytes(content)
    with pytest.raises(TrimtabError, match=sentence):
        list(load_stores(folder, ["bad"]))


def test_from_a_shell(folder):
    command = [sys.executable, "-m", "benchmarks.method_study"]
    given = {"cwd": ROOT, "capture_output": True, "text": True, "check": False}
    wrong = subprocess.run([*command, "nowhere", "mcp", "shuffled", "1"], **given)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("python -m benchmarks.method_study: There are no stores (.npz files) in nowhere;")
    right = subprocess.run([*command, str(folder.resolve()), "mcp", "shuffled,open-set", "1", "small"], **given)
    assert right.returncode == 0, right.stderr
    assert right.stdout.splitlines()[2].startswith("| small | shuffled |")
    helped = subprocess.run([*command, "--help"], **given)
    assert helped.returncode == 0
    assert "Methods over stores and orders, every cell." in helped.stdout
