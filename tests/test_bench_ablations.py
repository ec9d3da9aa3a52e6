"""Ablation studies: their points are what they say, and their tables come from real runs."""

import numpy as np
import pytest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.study.ablations import STUDIES, make_ablation
from trimtab.study.bench import run_plan
from trimtab.study.plots import plot_study
from trimtab.study.tables import ablation_table


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores") / "small", views=4, images=80)


def points(name, store):
    return [point for point, _ in make_ablation(name, store.path, seeds=1).points]


def test_every_study_can_be_planned(store):
    for name, study in STUDIES.items():
        found = points(name, store)
        assert len({point.label for point in found}) == len(found) > 1
        assert all(len(point.at) == len(study.axes) for point in found)
        assert sum(point.reference for point in found) <= 1


def test_the_seven_combinations_of_caches(store):
    found = points("caches", store)
    methods = [make_method("mcp", **point.parameters) for point in found]
    assert len({(m.entropy_slots > 0, m.align_slots > 0, m.negative_slots > 0) for m in methods}) == len(found) == 7
    (reference,) = (point for point in found if point.reference)
    assert reference.parameters == {}


def test_a_part_alone_gets_all_the_weight(store):
    weights = {point.label: point.parameters["fusion"] for point in points("retrieval", store)}
    assert weights == {
        "text alone": (1, 0, 0),
        "prototype alone": (0, 1, 0),
        "retrieval alone": (0, 0, 1),
        "all parts": (1, 1, 1),
    }


def test_views_go_as_far_as_the_store_does(store, tmp_path):
    assert [point.views for point in points("views", store)] == [1, 2, 4]
    with pytest.raises(TrimtabError, match="one view"):
        make_ablation("views", make_store(tmp_path / "one").path)
    with pytest.raises(TrimtabError, match="no study 'colors'"):
        make_ablation("colors", store.path)


def test_one_order_has_no_spread(store, tmp_path):
    ablation = make_ablation("negative-size", store.path, seeds=1)
    run_plan(ablation.plan, tmp_path, workers=1)
    rows = ablation_table(ablation.read(tmp_path)).rows
    assert not any("±" in row.cells[0].text for row in rows)
    assert [row.label for row in rows][:2] == ["0 negative slots", "1 negative slot"]


@pytest.mark.parametrize("name", ["caches", "negative-size", "writing"])  # dots, a line, a heat map
def test_a_study_becomes_a_table_and_a_figure(store, tmp_path, name):
    ablation = make_ablation(name, store.path, seeds=2)
    run_plan(ablation.plan, tmp_path, workers=1)
    found = ablation.read(tmp_path)
    table = ablation_table(found)
    assert len(table.rows) == len(ablation.points)
    for row, outcome in zip(table.rows, found.outcomes, strict=True):
        mean = 100 * np.mean([record.accuracy for record in outcome.records])
        assert row.cells[0].text.startswith(f"{mean:.2f}")
        assert {record.about.seed for record in outcome.records} == {0, 1}
        for key, value in outcome.point.parameters.items():
            assert outcome.records[0].about.parameters[key] == value
    ax, means = plot_study(found), [outcome.mean for outcome in found.outcomes]
    if name == "negative-size":
        assert ax.lines[0].get_ydata().tolist() == pytest.approx(means)
    else:
        *figures, note = (text.get_text() for text in ax.texts)
        assert figures == [f"{mean:.2f}" for mean in means]
        assert "2 shuffled orders" in note


def test_studies_in_one_folder_keep_apart(store, tmp_path):
    """The paper's setting is a point of several studies; each finds its own records."""
    for name in ("caches", "negative-size"):
        ablation = make_ablation(name, store.path, seeds=1)
        run_plan(ablation.plan, tmp_path, workers=1)
    for name in ("caches", "negative-size"):
        for outcome in make_ablation(name, store.path, seeds=1).read(tmp_path).outcomes:
            assert [record.about.variant for record in outcome.records] == [outcome.point.label]


def test_the_command_names_an_oracle(store, tmp_path):
    arguments = ["ablate", "center-weight", str(store.path), "--orders", "1", "--workers", "1", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--weights", "oracle"])
    assert done.exit_code == 0, done.output
    assert "ORACLE" in (tmp_path / "center-weight-small.md").read_text()
    assert (tmp_path / "center-weight-small.png").stat().st_size > 2000
