"""Figures: they draw what the records say, into the axes they are given."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, make_method
from trimtab.study import bench, plots
from trimtab.study.plots.catalog import FIGURES, draw
from trimtab.study.plots.style import look_of


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("stores")
    return [make_store(root / str(seed), dataset=f"set{seed}", seed=seed, classes=5 + seed) for seed in range(3)]


@pytest.fixture(scope="module")
def results(stores, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    plan = bench.make_plan([s.path for s in stores], ["mcp"], seeds=2, weights=["fixed", "oracle"])
    bench.run_plan(plan, out, workers=1)
    return bench.read_results(out)


def test_every_figure_draws_into_given_axes(results):
    for name, kind in FIGURES.items():
        ax = Figure().subplots()
        drawn = draw(name, results, dataset="set1" if kind.one_dataset else None, ax=ax)
        assert drawn is ax
        assert ax.get_title()
        assert ax.has_data()


def test_cost_shows_each_method_at_its_accuracy(results):
    ax = plots.plot_cost(results)
    shown = sorted(float(points.get_offsets()[0, 1]) for points in ax.collections)
    mean = [
        100 * np.mean([r.accuracy for r in results.records if r.about.method == name and r.about.weights == "fixed"])
        for name in ("zero_shot", "mcp")
    ]
    assert shown == pytest.approx(sorted(mean))


def test_along_ends_at_the_accuracy(results):
    ax = plots.plot_along(results, dataset="set2")
    ends = {line.get_label(): float(line.get_ydata()[-1]) for line in ax.lines}
    for record in results.records:
        if record.about.dataset == "set2" and record.about.method == "zero_shot":
            assert ends["Zero-shot"] == pytest.approx(100 * record.accuracy, abs=0.01)


def test_an_oracle_is_named_in_the_figure(results):
    assert "ORACLE" in plots.plot_along(results, dataset="set0", weights="oracle").get_title()
    assert "ORACLE" not in plots.plot_along(results, dataset="set0").get_title()


def test_compactness_gives_pearsons_r(results):
    ax = plots.plot_compactness(results)
    (label,) = (text.get_text() for text in ax.get_legend().get_texts())
    assert label.startswith("MCP: r = ")
    assert "n = 3" in label


def test_per_class_bars_are_changes_of_recall(results):
    ax = plots.plot_per_class(results, dataset="set1")
    records = [r for r in results.records if r.about.dataset == "set1" and r.about.weights == "fixed"]
    recall = {m: np.mean([r.recall for r in records if r.about.method == m], axis=0) for m in ("mcp", "zero_shot")}
    change = np.sort(100 * (recall["mcp"] - recall["zero_shot"]))
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], change, atol=1e-9)


def test_features_marks_the_members_of_the_caches(stores):
    ax = plots.plot_features(stores[0], make_method("mcp"), classes=(0, 1), projection="tsne")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == list(stores[0].class_names[:2])
    assert "in the align cache" in labels
    with pytest.raises(TrimtabError, match="no projection"):
        plots.plot_features(stores[0], make_method("mcp"), projection="umap")
    with pytest.raises(TrimtabError, match="keeps no bank"):
        plots.plot_features(stores[0], make_method("zero_shot"))


def test_what_cannot_be_drawn_is_refused(results):
    with pytest.raises(TrimtabError, match="no figure 'pie'"):
        draw("pie", results)
    with pytest.raises(TrimtabError, match="--dataset: set0, set1, set2"):
        plots.plot_along(results)
    with pytest.raises(TrimtabError, match="no finished runs"):
        plots.plot_per_class(results, dataset="set0", method="nothing")


@pytest.mark.parametrize("module", ["trimtab.study.plots", "trimtab.study.report", "trimtab.study.ablations"])
def test_each_package_can_be_imported_first(module):
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def test_methods_can_be_told_apart():
    looks = [look_of(name) for name in list_methods()]
    assert len(set(looks)) == len(looks)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_command_writes_a_figure(results, tmp_path, suffix):
    target = tmp_path / f"along{suffix}"
    arguments = ["plot", "along", str(results.folder), "--dataset", "set0", "-o", str(target)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert target.stat().st_size > 2000
