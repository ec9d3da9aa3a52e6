"""Figures: they draw what the records say, into the axes they are given."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, make_method
from trimtab.study import bench, plots
from trimtab.study.feature_map import map_features
from trimtab.study.figures import FIGURES, draw
from trimtab.study.plots import compact as compact_figure
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
    for method, label in (("zero_shot", "Zero-shot"), ("mcp", "MCP")):
        accuracies = [
            record.accuracy
            for record in results.records
            if (record.about.dataset, record.about.method, record.about.weights) == ("set2", method, "fixed")
        ]
        assert len(accuracies) == 2
        assert ends[label] == pytest.approx(100 * np.mean(accuracies), abs=0.01)


def test_an_oracle_is_named_in_the_figure(results):
    assert "ORACLE" in plots.plot_along(results, dataset="set0", weights="oracle").get_title()
    assert "ORACLE" not in plots.plot_along(results, dataset="set0").get_title()


def test_compactness_gives_pearsons_r(results, monkeypatch):
    monkeypatch.setattr(compact_figure, "FEWEST", 3)
    ax = plots.plot_compactness(results)
    (label,) = (text.get_text() for text in ax.get_legend().get_texts())
    compact, gain = [], []
    for name in ("set0", "set1", "set2"):
        fixed = [r for r in results.records if r.about.dataset == name and r.about.weights == "fixed"]
        compact.append(next(r.compactness for r in fixed if r.about.method == "zero_shot"))
        mean = {m: np.mean([r.accuracy for r in fixed if r.about.method == m]) for m in ("mcp", "zero_shot")}
        gain.append(mean["mcp"] - mean["zero_shot"])
    assert label.startswith(f"MCP: r = {np.corrcoef(compact, gain)[0, 1]:.2f}, p = ")
    assert label.endswith("n = 3")


def test_per_class_bars_are_changes_of_recall(results):
    ax = plots.plot_per_class(results, dataset="set1")
    records = [r for r in results.records if r.about.dataset == "set1" and r.about.weights == "fixed"]
    recall = {m: np.mean([r.recall for r in records if r.about.method == m], axis=0) for m in ("mcp", "zero_shot")}
    change = np.sort(100 * (recall["mcp"] - recall["zero_shot"]))
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], change, atol=1e-9)


def test_a_feature_map_holds_the_members_of_the_caches(stores):
    """Against a plain recount: each image that a cache of the chosen classes holds, where its own dot is."""
    store, chosen = stores[0], (3, 1)
    found = map_features(store, make_method("mcp"), classes=chosen)
    order = order_by_name("shuffled", labels=store.labels, seed=0)
    stream = make_method("mcp").start(store.task())
    stream.run(store.rows(order))
    bank = stream.state.caches.bank
    held = [
        (section, owner, int(position))
        for section, span in bank.sections.items()
        for owner, label in enumerate(chosen)
        for position in bank.sources[label, span]
        if position >= 0
    ]
    assert found.class_names == tuple(store.class_names[label] for label in chosen)
    assert sorted((m.section, m.owner) for m in found.members) == sorted((s, o) for s, o, _ in held)
    assert (found.labels == 0).sum() == (store.labels == 3).sum()
    assert (found.labels == 1).sum() == (store.labels == 1).sum()
    dots = {tuple(place) for place in found.images.tolist()}
    assert all(member.place in dots for member in found.members)
    # Two principal components keep differences: all places are one linear map of the features, moved.
    shown = np.union1d(
        np.flatnonzero(np.isin(store.labels[order], chosen)), [position for _, _, position in held]
    ).astype(int)
    features = store.rows(order[shown])[:, 0].astype(np.float32)
    text = store.text_prototypes[list(chosen)]
    linear = np.linalg.lstsq(features - features.mean(axis=0), found.images, rcond=None)[0]
    np.testing.assert_allclose(found.text, (text - text.mean(axis=0)) @ linear, atol=1e-4)


def test_features_marks_the_members_of_the_caches(stores):
    found = map_features(stores[0], make_method("mcp"), classes=(0, 1), projection="tsne")
    ax = plots.plot_features(found)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == list(stores[0].class_names[:2])
    assert "in the align cache" in labels
    rings = [dots for dots in ax.collections if dots.get_sizes().tolist() == [34]]
    drawn = sorted(tuple(dots.get_offsets()[0].tolist()) for dots in rings)
    np.testing.assert_allclose(drawn, sorted(member.place for member in found.members))


def test_what_cannot_be_mapped_is_refused(stores):
    with pytest.raises(TrimtabError, match="no projection"):
        map_features(stores[0], make_method("mcp"), projection="umap")
    with pytest.raises(TrimtabError, match="keeps no bank"):
        map_features(stores[0], make_method("zero_shot"))
    with pytest.raises(TrimtabError, match="7 classes are too many"):
        map_features(stores[2], make_method("mcp"), classes=tuple(range(7)))


def test_what_cannot_be_drawn_is_refused(results):
    with pytest.raises(TrimtabError, match="no figure 'pie'"):
        draw("pie", results)
    with pytest.raises(TrimtabError, match="--dataset: set0, set1, set2"):
        plots.plot_along(results)
    with pytest.raises(TrimtabError, match="no finished runs"):
        plots.plot_per_class(results, dataset="set0", method="nothing")
    with pytest.raises(TrimtabError, match=r"no finished runs for that figure \(weights auto"):
        plots.plot_cost(results, weights="auto")  # zero-shot alone would be drawn, under a title that misleads


@pytest.mark.parametrize("module", ["ablations", "bench", "demo.figures", "figures", "plots", "report", "tables"])
def test_each_package_can_be_imported_first(module):
    subprocess.run([sys.executable, "-c", f"import trimtab.study.{module}"], check=True)


def test_every_method_has_a_look_of_its_own():
    looks = [look_of(name) for name in list_methods()]
    assert len(set(looks)) == len(looks)


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_command_writes_a_figure_of_the_kind_asked_for(results, tmp_path, suffix, start):
    target = tmp_path / f"along{suffix}"
    arguments = ["plot", "along", str(results.folder), "--dataset", "set0", "-o", str(target)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert target.read_bytes().startswith(start)
    assert target.stat().st_size > 2000
