"""What figures say of themselves: how many orders, images, classes and data sets, and nothing that was not run."""

from dataclasses import replace
from itertools import pairwise

import matplotlib.colors
import numpy as np
import pytest

from bench_stores import make_store
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.study import bench, plots
from trimtab.study.ablations import make_ablation
from trimtab.study.bench.results import Results
from trimtab.study.feature_map import map_features
from trimtab.study.figures import draw
from trimtab.study.plots import features as feature_figure


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("stores")
    return [make_store(root / str(seed), dataset=f"set{seed}", seed=seed, views=2, classes=7) for seed in range(3)]


@pytest.fixture(scope="module")
def results(stores, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    bench.run_plan(bench.make_plan([s.path for s in stores], ["mcp"], seeds=3, weights=["fixed"]), out, workers=1)
    return bench.read_results(out)


def only(results, chosen):
    return replace(results, records=tuple(record for record in results.records if chosen(record.about)))


def note_of(ax):
    """The small text between title and axes."""
    (note,) = (text.get_text() for text in ax.texts if text.get_position() == (0, 4))
    return note


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def with_sets(results, count):
    """The same records under more names of data sets, so that a figure over data sets has more points."""
    records = []
    for number in range(count):
        for record in results.records:
            if record.about.dataset == f"set{number % 3}":
                compactness = record.compactness and record.compactness + number
                about = replace(record.about, dataset=f"more{number}")
                records.append(replace(record, about=about, compactness=compactness))
    return Results(results.folder, tuple(records), ())


def test_along_says_what_its_line_and_band_are(results):
    ax = plots.plot_along(results, dataset="set0")
    assert note_of(ax) == "mean of 3 shuffled orders; band: lowest to highest order, from a tenth of the stream on"
    assert len(ax.collections) == len(ax.lines) == 2


def test_along_of_one_order_has_no_band(results):
    ax = plots.plot_along(only(results, lambda about: about.seed == 1), dataset="set0")
    assert note_of(ax) == "1 shuffled order"
    assert len(ax.collections) == 0


def test_the_early_band_of_along_is_not_drawn_and_sets_no_limit(results):
    ax = plots.plot_along(results, dataset="set0")
    images = results.records[0].about.images
    assert min(band.get_paths()[0].vertices[:, 0].min() for band in ax.collections) >= images / 10
    early = [
        replace(r, along={**r.along, "accuracy": [r.about.seed / 2] * 4 + r.along["accuracy"][4:]})
        for r in results.records
    ]
    wild = plots.plot_along(Results(results.folder, tuple(early), ()), dataset="set0")
    assert wild.get_ylim() == pytest.approx(ax.get_ylim())


def test_along_says_which_method_lacks_orders(results):
    some = only(results, lambda about: about.method != "mcp" or about.seed < 2)
    assert legend_of(plots.plot_along(some, dataset="set0")) == ["Zero-shot", "MCP (2 of 3 orders)"]


@pytest.mark.parametrize(("sets", "lines"), [(2, 0), (4, 0), (5, 1)])
def test_compactness_draws_a_line_only_through_enough_points(results, sets, lines):
    ax = plots.plot_compactness(with_sets(results, sets))
    slanted = [line for line in ax.lines if np.ptp(line.get_xdata()) > 0 and line.get_color() != "black"]
    assert len(slanted) == lines
    (label,) = legend_of(ax)
    assert label.endswith(f"n = {sets}")
    assert ("r = " in label) == bool(lines)
    assert ("a line needs 5 data sets" in note_of(ax)) == (not lines)


def test_compactness_shows_the_data_sets_asked_for(results):
    ax = draw("compactness", results, dataset="set0,set2")
    assert {text.get_text() for text in ax.texts if text.get_text().startswith("set")} == {"set0", "set2"}
    assert legend_of(ax) == ["MCP: n = 2"]
    with pytest.raises(TrimtabError, match="compares data sets and needs"):
        draw("compactness", results, dataset="set1")
    with pytest.raises(TrimtabError, match="has no data set 'set9'; it has set0, set1, set2"):
        draw("compactness", results, dataset="set0,set9")


def test_names_of_close_points_do_not_overlap(results):
    ax = plots.plot_compactness(only(results, lambda about: True))
    places = sorted(text.get_position()[0] for text in ax.texts if text.get_text().startswith("set"))
    assert (np.diff(places) >= 0.054 * np.ptp(ax.get_xlim())).all()


def reliability(count):
    bins = len(count)
    middle = [(place + 0.5) / bins for place in range(bins)]
    return {"count": count, "confidence": middle, "accuracy": [*middle[:-1], 1.0]}


def test_a_bin_of_few_images_is_drawn_small_and_pale_and_one_of_fewer_not_at_all(results):
    counts = [9, 10, 400, 0]
    changed = [replace(record, reliability=reliability(counts)) for record in results.records]
    ax = plots.plot_reliability(Results(results.folder, tuple(changed), ()), dataset="set0", methods=("mcp",))
    (dots,) = ax.collections
    assert len(dots.get_offsets()) == 2, "three orders of nine images are not 27 images"
    (small, full), (pale, strong) = dots.get_sizes(), dots.get_facecolors()[:, 3]
    assert full / small == pytest.approx(np.sqrt(40))
    assert pale < 0.5 < strong == 1
    assert matplotlib.colors.to_hex(dots.get_facecolors()[0]) == ax.lines[-1].get_color().lower()
    assert "fewer than 10 images per order are left out" in note_of(ax)
    assert "3 shuffled orders together" in note_of(ax)


def test_a_marker_on_the_edge_of_a_reliability_diagram_is_whole(results):
    ax = plots.plot_reliability(results, dataset="set0")
    assert ax.get_xlim() == (0, 100)
    assert all(not dots.get_clip_on() for dots in ax.collections)


def test_features_says_how_much_it_shows(stores, monkeypatch):
    monkeypatch.setattr("trimtab.study.feature_map.MOST_IMAGES", 50)
    found = map_features(stores[0], make_method("mcp"))
    images = int(np.isin(stores[0].labels, [stores[0].class_names.index(name) for name in found.class_names]).sum())
    shown = int((found.labels >= 0).sum())
    assert note_of(plots.plot_features(found)) == f"6 of 7 classes, {shown} of {images} of their images"
    every = replace(found, all_classes=6, all_images=shown)
    assert note_of(plots.plot_features(every)) == f"all 6 classes, all {shown} of their images"


def test_members_of_a_class_that_is_not_shown_are_gray(stores):
    found = map_features(stores[0], make_method("mcp"), classes=(0, 1))
    assert (found.labels < 0).any()
    ax = plots.plot_features(found)
    gray = matplotlib.colors.to_rgba(feature_figure.GRAY)
    groups = [dots for dots in ax.collections if [tuple(color) for color in dots.get_facecolors()] == [gray]]
    assert [len(dots.get_offsets()) for dots in groups if len(dots.get_offsets())] == [(found.labels < 0).sum()]
    assert "a class not shown" in legend_of(ax)


def test_cost_names_its_data_sets(results):
    several = plots.plot_cost(results)
    assert several.get_title().startswith("3 data sets: ")
    assert note_of(several) == "mean over set0, set1, set2; 3 shuffled orders"
    assert several.get_ylabel() == "mean accuracy (%)"
    one = plots.plot_cost(results, dataset="set1")
    assert one.get_title().startswith("set1: ")
    assert one.get_ylabel() == "accuracy (%)"
    some = only(results, lambda about: about.method != "mcp" or about.dataset != "set1")
    assert legend_of(plots.plot_cost(some))[1].endswith("(2 of 3 sets)")


def test_stores_that_share_a_name_are_not_mixed(results):
    first = results.records[0]
    other = replace(first, about=replace(first.about, encoder="hf:other", seed=9))
    mixed = Results(results.folder, (*results.records, other), ())
    with pytest.raises(TrimtabError, match=r"from several stores .* keep their results in different folders"):
        plots.plot_along(mixed, dataset=first.about.dataset)


def findings(store, folder, name):
    ablation = make_ablation(name, store.path, seeds=2)
    bench.run_plan(ablation.plan, folder, workers=1)
    return ablation.read(folder)


def test_a_study_along_one_axis_has_ticks_only_where_it_ran(stores, tmp_path):
    ax = plots.plot_study(findings(stores[0], tmp_path, "views"))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2"]
    assert ax.get_xticks().tolist() == [1, 2]
    assert len(ax.get_xticks(minor=True)) == 0
    assert "mean ± standard deviation of 2 shuffled orders; orange: reference" in note_of(ax)


def test_no_figure_of_a_study_is_struck_through(stores, tmp_path):
    """Each stands right of the axes, where no line is drawn."""
    ax = plots.plot_study(findings(stores[0], tmp_path, "losses"))
    ax.figure.draw_without_rendering()
    edge = ax.get_window_extent().x1
    figures = [text for text in ax.texts if text.get_text().replace(".", "").isdigit()]
    assert len(figures) == 4
    assert all(text.get_window_extent().x0 > edge for text in figures)
    heights = [text.get_window_extent() for text in figures]
    assert all(not a.overlaps(b) for a, b in pairwise(heights))
