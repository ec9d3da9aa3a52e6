"""Tables of one data set: calibration and paired differences, and what the methods cost."""

import numpy as np

from trimtab.study.bench.record import Cost, Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import RowKey, images_title, title_of, weights_title
from trimtab.study.tables.accuracy import accuracy_table, column_title, row_label
from trimtab.study.tables.groups import Group, groups_of
from trimtab.study.tables.learned_prompts import notes_on_learned_prompts
from trimtab.study.tables.significance import against_baseline, against_rival, difference_text
from trimtab.study.tables.table import Cell, Row, Table


def report_tables(results: Results) -> list[Table]:
    """Accuracy in every group, then calibration and cost, and paired differences, for every data set."""
    tables = []
    for group in groups_of(results.records):
        tables.append(accuracy_table(group))
        for column in group.columns:
            tables += [quality_table(group, column), cost_table(group, column)]
    return tables


def quality_table(group: Group, column: str) -> Table:
    """Calibration and paired differences on one data set, as means over orders."""
    head = ["Accuracy", "Top-5", "ECE", "NLL", "Brier", "vs zero-shot", "vs best rival"]
    note = (
        "Percent, but for NLL and Brier; calibration error in 20 bins. Differences in points, with the largest p-value "
        "of the orders (exact McNemar)."
    )
    rows = [(key, _good(group, key, column)) for key in group.rows]
    cells = [
        Row(row_label(key, group, column), _quality(group, key, column, records)) for key, records in rows if records
    ]
    return Table(f"{_column(group, column)}: quality", head, cells, [note, *_debts(rows)])


def cost_table(group: Group, column: str) -> Table:
    """Time, memory and operations on one data set, as means over orders."""
    head = ["images/s", "step ms, p50 / p90 / p99", "state MB", "peak MB", "MFLOPs"]
    note = (
        "One thread, features already encoded. A step is one image that comes alone, with full caches; peak memory is "
        "the whole process. MFLOPs per image are counted by formula, without encoding the views; in parentheses, the "
        "share of the text encoder, through which prompts are tuned."
    )
    rows = [(key, _good(group, key, column)) for key in group.rows]
    cells = [Row(row_label(key, group, column), _cost(records)) for key, records in rows if records]
    return Table(f"{_column(group, column)}: cost", head, cells, [note, *_debts(rows)])


def _debts(rows: list[tuple[RowKey, list[Record]]]) -> list[str]:
    return notes_on_learned_prompts(record for _, records in rows for record in records)


def _column(group: Group, column: str) -> str:
    name, images = column_title(group, column), images_title(group.about(column))
    counted = name if images in name else f"{name} ({images})"
    return f"{counted}, {group.encoder}, {group.order}, {weights_title(group.weights)}"


def _good(group: Group, key: RowKey, column: str) -> list[Record]:
    return [record for record in group.records(key, column) if record.ok]


def _quality(group: Group, key: RowKey, column: str, records: list[Record]) -> list[Cell]:
    mean = {name: float(np.mean([record.scores[name] for record in records])) for name in records[0].scores}
    rival = against_rival(group, key, column)
    texts = [
        f"{100 * mean['accuracy']:.2f}",
        f"{100 * mean['top5']:.2f}",
        f"{100 * mean['ece']:.2f}",
        f"{mean['nll']:.3f}",
        f"{mean['brier']:.3f}",
        difference_text(against_baseline(group, key, column)),
        "" if rival is None else f"{difference_text(rival[1])} {title_of(*rival[0])}",
    ]
    return [Cell(text) for text in texts]


def _cost(records: list[Record]) -> list[Cell]:
    costs = [record.cost for record in records if record.cost is not None]
    waits = [np.mean([cost.step_ms[name] for cost in costs]) for name in ("p50", "p90", "p99")]
    texts = [
        f"{np.mean([cost.images_per_second for cost in costs]):.0f}",
        " / ".join(f"{wait:.2f}" for wait in waits),
        f"{np.mean([cost.state_mb for cost in costs]):.2f}",
        f"{np.mean([cost.peak_memory_mb for cost in costs]):.0f}",
        _operations(costs[0]),
    ]
    return [Cell(text) for text in texts]


def _operations(cost: Cost) -> str:
    if cost.gflops_per_image is None:
        return "not counted"
    share = (cost.text_encoder_gflops or 0.0) / cost.gflops_per_image
    return f"{1000 * cost.gflops_per_image:.3g}" + (f" ({share:.1%})" if share else "")
