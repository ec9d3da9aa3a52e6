"""Tuning: it finds something better than chance, remembers, and never hides that it used labels."""

import pytest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.study.bench.tuned import TunedParameters
from trimtab.study.tune import searched_parameters, tune


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
    ]:
        with pytest.raises(TrimtabError, match=says):
            tune(store.path, **options)


def test_the_command_saves_what_it_found(store, tmp_path):
    target = tmp_path / "mine.json"
    done = CliRunner().invoke(app, ["tune", str(store.path), "--trials", "2", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "ORACLE" in done.output
    assert "held out" in done.output
    assert TunedParameters.load(target).method == "mcp"
