"""Tuning: it finds something better than chance, remembers, and never hides that it used labels."""

import sys

import optuna
import pytest
from typer.testing import CliRunner

from bench_stores import make_store, small_files
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, make_method
from trimtab.study.bench.tuned import TunedParameters
from trimtab.study.tune import _Measure, searched_parameters, tune


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores") / "small", images=120)


def test_the_best_trial_is_what_it_says(store):
    found = tune(store.path, "mcp", trials=6, holdout=0.5)
    order = order_by_name("shuffled", labels=store.labels, seed=0)
    for half, tuned, default in [
        (order[:60], found.oracle, found.default),
        (order[60:], found.held_out, found.held_out_default),
    ]:
        for parameters, accuracy in [(found.tuned.parameters, tuned), ({}, default)]:
            predicted = make_method("mcp", **parameters).start(store.task()).run(store.rows(half))
            assert accuracy == pytest.approx(100 * (predicted.labels == store.labels[half]).mean())
    assert found.oracle >= found.default
    assert found.tuned.tuned_on == store.fingerprint
    assert found.tuned.trials == 6


def test_no_figure_on_searched_images_without_the_word(store):
    said = tune(store.path, "mcp", trials=2).sentences()
    assert len(said) == 1
    assert said[0].startswith("ORACLE")


def test_only_affinities_and_capacities_are_searched():
    names = set(searched_parameters("mcp"))
    assert {"entropy_slots", "negative_alpha", "negative_beta", "center_weight", "retrieval_beta"} <= names
    assert not names & {"fusion", "positive_alpha", "entropy_low", "view_fraction", "order", "promotion"}
    with pytest.raises(TrimtabError, match="no affinities"):
        searched_parameters("zero_shot")


@pytest.mark.parametrize("method", list_methods())
def test_the_defaults_of_every_method_can_be_drawn(method):
    try:
        names = searched_parameters(method)
    except TrimtabError:
        pytest.skip("it has nothing to search")
    study, defaults = optuna.create_study(), make_method(method).parameters()
    study.enqueue_trial({name: defaults[name] for name in names})
    drawn = [
        {name: draw(trial, name, defaults[name]) for name, draw in names.items()}
        for trial in (study.ask(), study.ask())
    ]
    assert drawn[0] == {name: defaults[name] for name in names}
    make_method(method, **drawn[1])


def test_a_memory_of_the_whole_stream_is_searched_around_its_size(store):
    assert tune(store.path, "keel", trials=2, images=40).tuned.parameters["memory_slots"] >= 256


def test_a_search_continues_where_it_stopped(store, tmp_path):
    journal = tmp_path / "search.journal"
    tune(store.path, "mcp", trials=3, journal=journal)
    done = []
    again = tune(store.path, "mcp", trials=5, journal=journal, on_trial=lambda number, best: done.append(number))
    assert done == [4, 5]
    assert again.tuned.trials == 5


def test_a_search_does_not_continue_what_other_code_began(store, tmp_path, monkeypatch):
    journal = tmp_path / "search.journal"
    tune(store.path, "mcp", trials=2, journal=journal)
    monkeypatch.setattr("trimtab.study.tune.code_fingerprint", lambda method: "changed since")
    done = []
    tune(store.path, "mcp", trials=2, journal=journal, on_trial=lambda number, best: done.append(number))
    assert done == [1, 2]


def test_bad_requests_are_refused(store):
    for options, says in [
        ({"holdout": 1.0}, "holdout must leave images to search on"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"images": 0}, "images must be a whole number of at least 1"),
        ({"images": -1}, "images must be a whole number of at least 1, not -1"),
        ({"images": 1, "holdout": 0.9}, "No images"),
    ]:
        with pytest.raises(TrimtabError, match=says):
            tune(store.path, **options)


def test_an_interrupted_search_says_nothing_loses_nothing_and_continues(store, tmp_path, monkeypatch, capfd):
    """In the first trial, which is that of the defaults, and later."""
    journal, measure, calls = tmp_path / "search.journal", _Measure.__call__, []

    def interrupted(self, parameters):
        calls.append(parameters)
        if len(calls) in (1, 4):
            raise KeyboardInterrupt
        return measure(self, parameters)

    monkeypatch.setattr(_Measure, "__call__", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tune(store.path, "mcp", trials=4, journal=journal)
    assert capfd.readouterr() == ("", "")
    done = []
    found = tune(store.path, "mcp", trials=4, journal=journal, on_trial=lambda number, best: done.append(number))
    assert done == [3, 4]
    assert found.tuned.trials == 4
    assert found.oracle >= found.default, "the defaults are among the trials"


def test_a_torn_last_line_of_the_journal_is_cut(store, tmp_path):
    journal = tmp_path / "search.journal"
    tune(store.path, "mcp", trials=2, journal=journal)
    with journal.open("ab") as file:
        file.write(b'{"op_code":4,"worker_id"')
    for trials in (3, 4):
        assert tune(store.path, "mcp", trials=trials, journal=journal).tuned.trials == trials


@pytest.mark.parametrize("content", ["notes of mine", "[1]\n", '{"a": 1}\n', '{"op_code": 99}\n', "a\nb\n"])
def test_a_file_that_is_not_a_journal_is_refused_and_left_alone(store, tmp_path, content):
    journal = tmp_path / "search.journal"
    journal.write_text(content)
    with pytest.raises(TrimtabError, match="does not hold the trials of a search"):
        tune(store.path, "mcp", trials=2, journal=journal)
    assert journal.read_text() == content


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")
def test_a_full_disk_ends_the_search_in_one_sentence_and_it_continues(store, tmp_path):
    journal = tmp_path / "search.journal"
    with small_files(3000), pytest.raises(TrimtabError, match=r"search.journal: File too large"):
        tune(store.path, "mcp", trials=50, journal=journal)
    kept = len(journal.read_bytes())
    assert kept <= 3000
    assert tune(store.path, "mcp", trials=3, journal=journal).tuned.trials >= 3


def test_the_command_refuses_to_replace_what_is_not_its_own(store, tmp_path):
    target = tmp_path / "notes.txt"
    target.write_text("mine")
    arguments = ["tune", str(store.path), "--trials", "1", "-o"]
    refused = CliRunner().invoke(app, [*arguments, str(target)])
    assert "exists and does not hold what `trimtab tune` writes" in str(refused.exception)
    assert target.read_text() == "mine"
    assert "is a folder" in str(CliRunner().invoke(app, [*arguments, str(tmp_path)]).exception)
    for _ in range(2):
        assert CliRunner().invoke(app, [*arguments, str(target), "--overwrite"]).exit_code == 0
    assert CliRunner().invoke(app, [*arguments, str(target)]).exit_code == 0


def test_the_command_saves_what_it_found(store, tmp_path):
    target = tmp_path / "mine.json"
    done = CliRunner().invoke(app, ["tune", str(store.path), "--trials", "2", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "ORACLE" in done.output
    assert "held out" in done.output
    assert TunedParameters.load(target).method == "mcp"
