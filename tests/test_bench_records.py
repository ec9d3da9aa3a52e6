"""Records, plans and tuned parameters: what was changed, cut off or never was one is refused in one sentence."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.study import bench
from trimtab.study.bench.record import RECORD, read_record
from trimtab.study.bench.sealed import checksum
from trimtab.study.bench.tuned import TunedParameters


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The records of a small benchmark, as text, by their files."""
    root = tmp_path_factory.mktemp("finished")
    store = make_store(root / "small")
    bench.run_plan(bench.make_plan([store.path], ["mcp"], seeds=2), root / "out", workers=1)
    return {path.relative_to(root / "out"): path.read_text() for path in (root / "out").rglob("*.json")}


@pytest.fixture
def folder(finished, tmp_path):
    """A folder of results to be damaged, and the file of one record in it."""
    for name, text in finished.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path, next(iter(sorted(tmp_path.glob("small/*/*.json"))))


def rewrite(path, change, *, reseal=False):
    """Change a record's content; resealed, as somebody who knows the checksum would."""
    content = json.loads(path.read_text())
    change(content)
    if reseal:
        content["checksum"] = checksum(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[:200], "not JSON"),
        (lambda text: "", "not JSON"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: text.replace('"version": 2', '"version": 3', 1), "trimtab-run 3, this trimtab reads 2"),
        (lambda text: text.replace("trimtab-run", "other"), "not the record of a run"),
        (lambda text: "[]", "not the record of a run"),
        (lambda text: json.dumps({"format": "trimtab-run", "version": 2}), "at about: it is missing"),
    ],
)
def test_what_is_not_a_record_is_refused_in_one_sentence_with_its_file(folder, change, says):
    out, path = folder
    path.write_text(change(path.read_text()))
    with pytest.raises(TrimtabError, match=says) as caught:
        read_record(path)
    assert str(path) in str(caught.value)
    found = bench.read_results(out)
    assert found.refused == (str(caught.value),)
    assert len(found.records) == 3
    assert found.missing == (path.relative_to(out).as_posix(),)
    assert "REFUSED: 1 file" in found.note


def set_at(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(content):
        for key in keys:
            content = content[key]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_at("about", None), "at about: expected object, got null"),
        (set_at("about", "images", "160"), "at about.images: expected int, got str"),
        (set_at("about", "images", 0), "at about.images: expected int >= 1"),
        (set_at("about", "class_names", [1]), r"at about.class_names\[0\]: expected str, got int"),
        (set_at("about", "weights", "best"), "at about.weights"),
        (set_at("about", {}), "at about: object missing required field dataset"),
        (set_at("scores", "accuracy", None), r"at scores\[...\]: expected float, got null"),
        (set_at("scores", {}), "at scores: it does not hold accuracy"),
        (set_at("recall", [0.5]), "at recall: it has another length"),
        (set_at("recall", 0, 1.5), "at recall"),
        (set_at("reliability", {}), "at reliability"),
        (set_at("reliability", "count", [1]), "at reliability"),
        (set_at("along", "images", []), "at along"),
        (set_at("labeled", 0), "at labeled"),
        (set_at("labeled", 4000), "at labeled"),
        (set_at("labeled", 150), "at correct"),
        (set_at("correct", "é"), "at correct"),
        (set_at("correct", "AAAA"), "at correct"),
        (set_at("scores", "accuracy", 0.99), "at scores.accuracy: it is not that of the images"),
        (set_at("cost", None), "at cost"),
        (set_at("cost", "step_ms", {}), "at cost"),
        (set_at("status", "fine"), "at status"),
        (set_at("versions", None), "at versions"),
    ],
)
def test_a_field_that_cannot_be_is_named_even_if_the_checksum_fits(folder, change, says):
    _, path = folder
    rewrite(path, change, reseal=True)
    with pytest.raises(TrimtabError, match=says) as caught:
        read_record(path)
    assert str(caught.value).startswith(f"{path} is damaged at ")
    assert "\n" not in str(caught.value)


def test_no_change_of_any_field_gets_through(folder):
    """Every value of a record in turn: missing, null, short, another type, another number."""
    _, path = folder
    whole = json.loads(path.read_text())

    def places(value, at=()):
        yield at
        for key in value if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else ():
            yield from places(value[key], (*at, key))

    def others(value):
        yield from (None, "x", 12345, [], {}, True)
        if isinstance(value, str | list):
            yield value[:-1]
        if isinstance(value, int | float):
            yield value + 1

    tried = 0
    for at in places(whole):
        for value in others(_at(whole, at)) if at else ():
            if value == _at(whole, at):
                continue
            rewrite(path, set_at(*at, value))
            with pytest.raises(TrimtabError):
                read_record(path)
            path.write_text(json.dumps(whole))
            tried += 1
    assert tried > 300
    assert read_record(path).ok


def _at(value, keys):
    for key in keys:
        value = value[key]
    return value


def test_an_edited_accuracy_is_refused_and_indenting_is_not(folder):
    out, path = folder
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text)))
    assert not bench.read_results(out).refused
    rewrite(path, set_at("scores", "top5", 0.99))
    with pytest.raises(TrimtabError, match="checksum does not match"):
        read_record(path)
    rewrite(path, lambda content: content.pop("checksum"))
    with pytest.raises(TrimtabError, match="checksum does not match"):
        read_record(path)


def test_the_report_continues_without_what_it_refuses_and_says_so(folder):
    out, path = folder
    rewrite(path, set_at("scores", "accuracy", 0.99))
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 1
    assert f"{path} is not as it was written" in done.stderr
    assert "99.00" not in done.output
    for name in ("report.md", "report.tex", "report.html"):
        assert "REFUSED: 1 file" in (out / name).read_text()
    for each in out.glob("small/*/*.json"):
        each.write_text("{")
    with pytest.raises(TrimtabError, match=r"holds no record that can be trusted: .* \(and 3 more like it\)"):
        bench.read_results(out)


def test_a_refused_record_is_run_again(folder):
    out, path = folder
    plan_before = len(bench.read_results(out).records)
    rewrite(path, set_at("about", "seed", 7))
    found = bench.read_results(out)
    assert len(found.records) == plan_before - 1
    store = found.records[0].about.store
    made = bench.run_plan(bench.make_plan([store], ["mcp"], seeds=2), out, workers=1)
    assert len(made) == 1
    assert not bench.read_results(out).note


def test_a_copy_of_a_record_does_not_count_twice(folder):
    out, path = folder
    path.with_name("copy.json").write_text(path.read_text())
    found = bench.read_results(out)
    assert len(found.records) == 4
    assert "second record of the same run" in found.refused[0]


@pytest.mark.parametrize("records", [None, 5, [1], "abc"])
def test_a_damaged_plan_is_refused(folder, records):
    out, _ = folder
    rewrite(out / "plan.json", set_at("records", records), reseal=True)
    with pytest.raises(TrimtabError, match=r"plan.json is damaged at records"):
        bench.read_results(out)


def test_a_shortened_plan_does_not_hide_what_is_missing(folder):
    out, _ = folder
    rewrite(out / "plan.json", set_at("records", []))
    with pytest.raises(TrimtabError, match=r"plan.json is not as it was written"):
        bench.read_results(out)


def test_a_folder_named_like_a_record_is_not_taken_for_one(folder):
    out, _ = folder
    (out / "small.json").mkdir()
    assert not bench.read_results(out).refused
    with pytest.raises(TrimtabError, match="is a file"):
        bench.read_results(out / "plan.json")


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_figures_that_are_not_numbers_are_a_failure(tmp_path, monkeypatch):
    store = make_store(tmp_path / "small")

    def nan(*arguments):
        fused = np.full((len(store), 6), np.nan, np.float32)
        return fused, {"text": 1.0}

    monkeypatch.setattr("trimtab.study.bench.runner.weigh", nan)
    records = bench.run_plan(bench.make_plan([store.path], ["zero_shot"], seeds=1), tmp_path / "out", workers=1)
    assert [record.status for record in records] == ["failed"]
    assert "not finite" in bench.read_results(tmp_path / "out").records[0].reason


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "is not a file of tuned parameters"),
        ('{"format": "trimtab-tuned", "version": 1}', "damaged at name: it is missing"),
        ('{"format": "trimtab-preset", "version": 1}', "is not a file of tuned parameters"),
        ('{"format": "trimtab-tuned", "version": 7}', "trimtab-tuned 7, this trimtab reads 1"),
        (None, "cannot be read"),
    ],
)
def test_what_is_not_tuned_parameters_is_refused_in_one_sentence(tmp_path, content, says):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TrimtabError, match=says):
        TunedParameters.load(path)


def test_tuned_parameters_cannot_disown_their_store(tmp_path):
    path = tmp_path / "mine.json"
    TunedParameters("mine", "mcp", {"align_slots": 2}, "abc", "small", 5, 0.9, 0.8).save(path)
    rewrite(path, set_at("tuned_on", "another"))
    with pytest.raises(TrimtabError, match="not as it was written"):
        TunedParameters.load(path)


def test_the_checksum_is_of_the_content(finished):
    content = json.loads(next(text for name, text in finished.items() if name.name != "plan.json"))
    assert content["format"] == RECORD.format
    assert checksum(dict(reversed(content.items()))) == content["checksum"]
