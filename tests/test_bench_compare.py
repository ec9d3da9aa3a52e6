"""`trimtab compare`: what it says of two runs is what the runs themselves say, and what cannot be paired is refused."""

import json
import shutil

import numpy as np
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.study import bench
from trimtab.study.tables import read_side, side_by_side, side_by_side_data, side_by_side_tables


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    root = tmp_path_factory.mktemp("stores")
    return {
        "small": make_store(root / "small", images=300),
        "few": make_store(root / "few", images=120),
        "other": make_store(root / "other", dataset="other"),
    }


@pytest.fixture(scope="module")
def folders(stores, tmp_path_factory):
    """Results before and after a change of a parameter, and of other stores."""
    root = tmp_path_factory.mktemp("results")
    changes = {"after": {"fusion": (0.0, 0.0, 1.0)}}
    for name, store in (("before", "small"), ("after", "small"), ("few", "few"), ("other", "other")):
        plan = bench.make_plan([stores[store].path], ["mcp"], seeds=2, parameters={"mcp": changes.get(name, {})})
        bench.run_plan(plan, root / name, workers=1)
    return root


def correct(store, fusion, seed):
    order = order_by_name("shuffled", labels=store.labels, seed=seed)
    made = make_method("mcp", fusion=fusion)
    return made.start(store.task()).run(store.rows(order)).labels == store.labels[order], order


def test_counts_tests_and_images_are_those_of_the_runs(stores, folders):
    store = stores["small"]
    found = side_by_side(read_side(folders / "before"), read_side(folders / "after"))
    data = side_by_side_data(found, images=True)
    assert "mcp's fusion: [1.0, 1.0, 1.0] in A, [0.0, 0.0, 1.0] in B" in data["differences"]
    zero, mcp = data["pairs"][0], data["pairs"][1]
    assert zero["points"] == 0
    assert [order["seed"] for order in mcp["orders"]] == [0, 1]
    p_values = []
    for seed, order in enumerate(mcp["orders"]):
        before, positions = correct(store, (1.0, 1.0, 1.0), seed)
        after, _ = correct(store, (0.0, 0.0, 1.0), seed)
        gained, lost = np.flatnonzero(after & ~before), np.flatnonzero(before & ~after)
        assert (order["only_b_right"], order["only_a_right"]) == (len(gained), len(lost))
        assert len(gained) + len(lost) > 0
        p_values.append(binomtest(len(gained), len(gained) + len(lost)).pvalue)
        assert order["p"] == pytest.approx(p_values[-1])
        assert order["accuracy_b"] - order["accuracy_a"] == pytest.approx(100 * (after.mean() - before.mean()))
        changed = order["changed"]
        assert [image["position"] for image in changed["only_b_right"]] == positions[gained].tolist()
        assert [image["id"] for image in changed["only_a_right"]] == [store.ids[n] for n in positions[lost]]
    signs = {np.sign(order["accuracy_b"] - order["accuracy_a"]) for order in mcp["orders"]}
    assert mcp["p"] == pytest.approx(max(p_values) if len(signs) == 1 else 1.0)


def test_tables_name_both_sides_and_what_only_one_has(folders, tmp_path):
    shutil.copytree(folders / "after", tmp_path / "less")
    for path in tmp_path.glob("less/small/shuffled-1/zero_shot*.json"):
        path.unlink()
    found = side_by_side(read_side(folders / "before"), read_side(tmp_path / "less"))
    (table,) = side_by_side_tables(found)
    assert table.title == "small (300 images), shuffled x 2, weights fixed"
    assert [row.label for row in table.rows] == [
        "Zero-shot",
        "MCP → MCP [fusion=(0.0, 0.0, 1.0)]",
    ]
    assert "Only in A: Zero-shot on small, shuffled x 1, weights fixed." in table.notes


def test_the_command_prints_tables_json_or_images(folders):
    arguments = ["compare", str(folders / "before"), str(folders / "after")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "only B right" in shown.stdout
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert len(data["pairs"]) == 2
    assert "changed" not in data["pairs"][1]["orders"][0]
    listed = CliRunner().invoke(app, [*arguments, "--images"]).stdout
    lines = [line for line in listed.splitlines() if "\t" in line]
    assert len(lines) == sum(o["only_a_right"] + o["only_b_right"] for row in data["pairs"] for o in row["orders"])


def test_two_records_are_compared_whatever_their_methods(folders, tmp_path):
    zero, mcp = (next((folders / "before").glob(f"small/shuffled-0/{name}-*.json")) for name in ("zero_shot", "mcp"))
    (row,) = side_by_side(read_side(zero), read_side(mcp)).rows
    assert row.label == "Zero-shot → MCP"
    with pytest.raises(TrimtabError, match="give two folders or two records"):
        side_by_side(read_side(zero), read_side(folders / "after"))
    later = next((folders / "before").glob("small/shuffled-1/mcp-*.json"))
    with pytest.raises(TrimtabError, match="different orders"):
        side_by_side(read_side(zero), read_side(later))


@pytest.mark.parametrize(
    ("name", "says"), [("few", "different images of small"), ("other", "no run in common"), ("none", "no folder")]
)
def test_what_cannot_be_paired_is_refused_in_one_sentence(folders, name, says):
    with pytest.raises(TrimtabError, match=says):
        side_by_side(read_side(folders / "before"), read_side(folders / name))


def test_without_its_store_an_image_has_its_place_only(stores, folders, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(stores["small"].path, moved)
    try:
        found = side_by_side(read_side(folders / "before"), read_side(folders / "after"))
        changed = side_by_side_data(found, images=True)["pairs"][1]["orders"][0]["changed"]
        image = (changed["only_a_right"] + changed["only_b_right"])[0]
        assert image["id"] is None
        assert image["place"] >= 0
    finally:
        shutil.move(moved, stores["small"].path)


def test_the_same_images_under_other_views_are_comparable(stores, tmp_path):
    """Stores of other encoders and views hold the same images, and a run on them the same stream."""
    few = stores["few"]
    for name, scale in (("one", 1.0), ("two", 0.5)):
        noise = np.random.default_rng(0).normal(scale=0.2 * scale, size=(len(few), 2, few.dim))
        rows = np.repeat(few.rows(slice(None)), 2, axis=1) + noise
        store = few.from_arrays(
            tmp_path / name, rows, few.labels, few.text_prototypes, few.class_names, 20.0, dataset="small"
        )
        bench.run_plan(bench.make_plan([store.path], ["zero_shot"], seeds=1), tmp_path / f"out-{name}", workers=1)
    found = side_by_side(read_side(tmp_path / "out-one"), read_side(tmp_path / "out-two"))
    assert len(found.rows) == 1
