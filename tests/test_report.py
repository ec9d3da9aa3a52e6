"""Tables: what they claim is what the records say, and what cannot be compared is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.study import bench, tables
from trimtab.study.bench.record import About, Cost, Record, packed
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import full_size, images_title
from trimtab.study.tables.groups import groups_of
from trimtab.study.tables.latex import escaped
from trimtab.study.tables.published import CROSS_DOMAIN, published_rows
from trimtab.study.tables.significance import compare, mcnemar


def record(method="mcp", dataset="food101", correct=None, seed=0, weights="fixed", **changes):
    """A record by hand, with just enough in it."""
    right = np.ones(100, bool) if correct is None else np.asarray(correct, bool)
    about = {
        "dataset": dataset,
        "store": f"/stores/{dataset}",
        "store_fingerprint": "f" + dataset,
        "task_fingerprint": "t" + dataset,
        "encoder": "openai:ViT-B/16",
        "prompts": "p",
        "class_names": ["a", "b"],
        "images": full_size(dataset) or len(right),
        "views": 1,
        "dim": 4,
        "method": method,
        "variant": "",
        "parameters": {},
        "order": "shuffled",
        "seed": seed,
        "weights": weights,
    } | {key: value for key, value in changes.items() if key in About.__dataclass_fields__}
    rest = {key: value for key, value in changes.items() if key not in about}
    scores = {"accuracy": float(right.mean()), "top5": 1.0, "ece": 0.1, "nll": 1.0, "brier": 0.5}
    return Record(
        About(**about),
        scores=scores,
        recall=[0.5, None],
        correct=packed(right),
        labeled=len(right),
        cost=Cost(1.0, 100.0, {"p50": 1.0, "p90": 1.0, "p99": 1.0}, 10.0, 1.0, None),
        **rest,
    )


def right(share, images=1000, seed=0):
    return np.random.default_rng(seed).permutation(images) < share * images


def results(*records, missing=()):
    from pathlib import Path

    return Results(Path("results"), records, tuple(missing))


def only_table(*records):
    (group,) = groups_of(records)
    return tables.accuracy_table(group)


def cells(table, label):
    return [cell.text for row in table.rows if row.label == label for cell in row.cells]


def test_mean_and_spread_over_orders():
    table = only_table(
        *(record("zero_shot", seed=s, correct=right(0.5)) for s in range(3)),
        *(record("mcp", seed=s, correct=right(share)) for s, share in enumerate([0.5, 0.6, 0.7])),
    )
    assert table.head == ["Food101"]
    assert cells(table, "Zero-shot")[0].startswith("50.00 ±0.00")
    assert cells(table, "MCP")[0].startswith("60.00 ±10.00")


def test_a_cell_with_fewer_orders_says_so():
    table = only_table(*(record("zero_shot", seed=s) for s in range(3)), record("mcp", seed=0))
    assert cells(table, "MCP") == ["100.00 (1 of 3)"]
    assert "x 3" in table.title


def test_columns_stand_in_the_papers_order_with_its_averages():
    datasets = list(CROSS_DOMAIN)
    shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    table = only_table(*(record("zero_shot", d, right(s)) for d, s in zip(reversed(datasets), shares, strict=True)))
    assert table.head == [*CROSS_DOMAIN.values(), "Average"]
    assert float(cells(table, "Zero-shot")[-1]) == pytest.approx(55.0, abs=0.03)
    shifts = ["imagenet", "imagenet-a", "imagenet-v2", "imagenet-r", "imagenet-sketch"]
    table = only_table(
        *(record("zero_shot", d, right(s)) for d, s in zip(shifts, [0.9, 0.1, 0.2, 0.3, 0.4], strict=True))
    )
    assert table.head[-2:] == ["OOD average", "Average"]
    assert cells(table, "Zero-shot")[-2:] == ["25.00", "38.00"]


def test_mcnemar_is_the_exact_binomial_test():
    ours, theirs = right(0.6), right(0.5, seed=1)
    b, c = (ours & ~theirs).sum(), (theirs & ~ours).sum()
    assert mcnemar(record(correct=ours), record(correct=theirs)) == pytest.approx(binomtest(int(b), int(b + c)).pvalue)
    assert mcnemar(record(correct=ours), record(correct=ours)) == 1.0
    with pytest.raises(TrimtabError, match="same store"):
        mcnemar(record(correct=ours), record(correct=theirs[:-1]))


def test_a_difference_must_hold_in_every_order():
    zero = [record("zero_shot", seed=s, correct=right(0.5)) for s in range(2)]
    always = [record(seed=s, correct=right(0.7)) for s in range(2)]
    once = [record(seed=0, correct=right(0.7)), record(seed=1, correct=right(0.45))]
    assert compare(always, zero).clear
    assert compare(always, zero).points == pytest.approx(20)
    assert not compare(once, zero).clear
    assert compare(always, []) is None


def test_marks_of_better_worse_and_best():
    table = only_table(
        record("zero_shot", correct=right(0.5)),
        record("mcp", correct=right(0.8)),
        record("mcp", variant="half", correct=right(0.6)),
        record("mcp", variant="bad", correct=right(0.3)),
    )
    assert cells(table, "MCP")[0].endswith("▲★")
    assert cells(table, "MCP [half]")[0].endswith("▲")
    assert cells(table, "MCP [bad]")[0].endswith("▼")
    assert [row.label for row in table.rows if row.cells[0].best] == ["MCP"]


def test_weights_are_never_mixed_and_oracles_are_named():
    found = tables.report_tables(
        results(
            record("zero_shot", correct=right(0.5)),
            record("mcp", correct=right(0.6)),
            record("mcp", correct=right(0.9), weights="oracle"),
            record("mcp", variant="tuned", correct=right(0.8), tuned_on="ffood101"),
        )
    )
    fixed, oracle = (table for table in found if "Cross-domain" in table.title)
    assert "ORACLE" in oracle.title
    assert "ORACLE" not in fixed.title
    assert cells(fixed, "MCP")[0].startswith("60")
    assert cells(oracle, "MCP (ORACLE)")[0].startswith("90")
    assert cells(oracle, "Zero-shot")[0].startswith("50")
    assert cells(fixed, "MCP [tuned] (ORACLE)")[0].startswith("80")
    for form in (tables.markdown(found), tables.latex(found)):
        assert not re.search(r"MCP[^\n(]*9\d\.", form), "an oracle's figure stands without its name"


def test_a_failed_method_keeps_its_row_and_its_reason():
    table = only_table(
        record("zero_shot"),
        record("zero_shot", "dtd"),
        record("mcp"),
        record("mcp", "dtd", status="failed", reason="out of luck"),
    )
    assert cells(table, "MCP") == ["failed", "100.00", "–"]  # no average of a row with a hole
    assert any("MCP failed: dtd: out of luck" in note for note in table.notes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"class_names": ["a", "b", "c"]}, "different class lists"),
        ({"task_fingerprint": "other"}, "different prompts"),
        ({"store_fingerprint": "other"}, "different images"),
    ],
)
def test_stores_that_only_share_a_name_are_refused(change, says):
    with pytest.raises(TrimtabError, match=says):
        groups_of([record("zero_shot"), record("mcp", **change)])


def test_a_part_of_a_set_is_not_called_by_the_sets_name_alone():
    table = only_table(record("zero_shot", "cifar10", images=2000), record("zero_shot", "mine"))
    assert table.head == ["cifar10 (2,000 of 10,000 images)", "mine", "Average"]
    assert "Images: cifar10 2,000 of 10,000, mine 100." in table.notes
    (group,) = groups_of([record("zero_shot", "cifar10+noise:3", images=2000)])
    for made in (tables.quality_table, tables.cost_table):
        assert made(group, "cifar10+noise:3").title.startswith("cifar10+noise:3 (2,000 of 10,000 images)")
    whole = only_table(record("zero_shot", "cifar10"))
    assert whole.head == ["cifar10"]
    assert "Images: cifar10 10,000." in whole.notes
    assert images_title(record(dataset="mine", images=1).about) == "1 image"


def test_a_part_of_a_set_has_no_published_figures_beside_it():
    assert any(row.quoted for row in only_table(record("zero_shot", "eurosat")).rows)
    assert not any(row.quoted for row in only_table(record("zero_shot", "eurosat", images=500)).rows)
    both = only_table(record("zero_shot", "eurosat", images=500), record("zero_shot", "dtd"))
    printed = next(row for row in both.rows if row.quoted)
    texts = dict(zip(both.head, (cell.text for cell in printed.cells), strict=True))
    assert texts["EuroSAT (500 of 8,100 images)"] == ""
    assert float(texts["DTD"]) > 0


def test_a_tuned_row_is_an_oracle_only_where_it_was_tuned():
    records = [record("zero_shot", d, right(0.5)) for d in ("first", "second")]
    records += [record("mcp", d, right(0.8), variant="tuned", tuned_on="ffirst") for d in ("first", "second")]
    (group,) = groups_of(records)
    table = tables.accuracy_table(group)
    assert cells(table, "MCP [tuned]")[:2] == ["80.00 ORACLE ▲", "80.00 ▲"]
    assert any("tuned on the labels of this very store" in note for note in table.notes)
    assert [row.label for row in tables.quality_table(group, "first").rows] == ["Zero-shot", "MCP [tuned] (ORACLE)"]
    assert [row.label for row in tables.quality_table(group, "second").rows] == ["Zero-shot", "MCP [tuned]"]
    home = only_table(*records[::2])
    assert cells(home, "MCP [tuned] (ORACLE)") == ["80.00 ▲"]


def test_an_oracle_below_auto_is_explained():
    shared = [record("zero_shot", correct=right(0.5)), record("mcp", correct=right(0.7), weights="auto")]
    below = [*shared, record("mcp", correct=right(0.6), weights="oracle")]
    auto, oracle = (tables.accuracy_table(group) for group in groups_of(below)[-2:])
    assert "ORACLE" in oracle.title
    assert any("So it is here: MCP on food101 (70.00 against 60.00)." in note for note in oracle.notes)
    assert not any("So it is here" in note for note in auto.notes)
    above = [*shared, record("mcp", correct=right(0.9), weights="oracle")]
    notes = tables.accuracy_table(groups_of(above)[-1]).notes
    assert any("Auto reweighs the parts" in note for note in notes)
    assert not any("So it is here" in note for note in notes)


def test_two_settings_of_one_name_are_not_averaged():
    with pytest.raises(TrimtabError, match=r"two different runs of MCP \[tuned\] on food101, shuffled 0"):
        groups_of([record(variant="tuned", parameters={"align_slots": n}) for n in (3, 5)])


def test_views_make_columns_of_their_own():
    table = only_table(record("zero_shot"), record("zero_shot", views=32, store_fingerprint="more"))
    assert table.head[:2] == ["food101 (1 view)", "food101 (32 views)"]


def test_published_rows_only_beside_their_backbone():
    table = only_table(record("zero_shot", "eurosat"))
    printed = {row.label: row.cells[0].text for row in table.rows if row.quoted}
    assert printed["MCP (published, label-tuned: weights searched on the test labels)"] == "68.42"
    assert not any(row.quoted for row in only_table(record("zero_shot", "eurosat", encoder="lite")).rows)
    assert not any(row.quoted for row in only_table(record("zero_shot", "cifar10")).rows)
    assert {row.backbone for row in published_rows("openai:RN50", ("dtd",))} == {"ResNet-50"}
    with_prompts = published_rows("maple:a+b/m.safetensors+openai:ViT-B/16", ("dtd",))
    assert {row.method: row.by_dataset()["dtd"] for row in with_prompts}["PromptAlign"] == 47.24


def test_the_text_encoders_share_stands_in_the_table_of_costs():
    tuned = record("tpt")
    tuned = replace(tuned, cost=replace(tuned.cost, gflops_per_image=2.0, text_encoder_gflops=1.5))
    table = tables.cost_table(groups_of([record("zero_shot"), tuned])[0], "food101")
    assert [row.cells[-1].text for row in table.rows] == ["not counted", "2e+03 (75.0%)"]
    assert "the share of the text encoder" in table.notes[0]


def test_the_papers_misprints_are_known():
    wrong = {(row.method, row.backbone, len(row.accuracies)) for row in tables.PUBLISHED if tables.misprints(row)}
    assert wrong == {
        ("DiffTPT", "ViT-B/16", 10),
        ("DiffTPT", "ViT-B/16", 5),
        ("MaPLe", "ViT-B/16", 5),
        ("CLIP", "ResNet-50", 10),
        ("DMN", "ResNet-50", 10),
        ("MCP", "ResNet-50", 5),
    }
    difftpt = next(row for row in tables.PUBLISHED if row.method == "DiffTPT")
    repaired = replace(difftpt, accuracies=(*difftpt.accuracies[:9], 68.22))
    assert repaired.own_averages()[0] == pytest.approx(difftpt.averages[0], abs=0.005)


def test_latex_is_escaped_and_balanced():
    table = only_table(record("zero_shot"), record("mcp", variant="align_slots=5 & 10%"))
    text = tables.latex([table])
    assert r"align\_slots=5 \& 10\%" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert escaped("±▲") == r"$\pm$$^{\uparrow}$"


def test_the_whole_report_from_a_real_benchmark(tmp_path):
    store = make_store(tmp_path / "a", dataset="first")
    other = make_store(tmp_path / "b", dataset="second", seed=3, classes=40)
    plan = bench.make_plan([store.path, other.path], ["mcp"], seeds=2, weights=["fixed", "oracle"])
    bench.run_plan(plan, tmp_path / "out", workers=1)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out"), "--full"])
    assert done.exit_code == 0, done.output
    assert "ORACLE" in done.output
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 * (2 + 2 * 3)  # per table: two about all sets, three about each
    assert not re.search(r'(src|href)="(?!data:|#)', page), "the page must not fetch anything"
    assert "MCP" in (tmp_path / "out/report.md").read_text()
    (tmp_path / "out" / plan.files[0]).unlink()
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert "UNFINISHED: 1 of" in done.output
    assert "UNFINISHED" in (tmp_path / "out/report.html").read_text()
