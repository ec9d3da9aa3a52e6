"""Tables as data: what the terminal, Markdown, LaTeX and HTML all show."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.study.bench.plan import BASELINE, WEIGHTS
from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import RowKey, title_of, weights_title
from trimtab.study.report.groups import Group, groups_of
from trimtab.study.report.published import CROSS_DOMAIN, SHIFTS, misprints, published_rows
from trimtab.study.report.significance import ALPHA, Comparison, compare

ORACLE = "ORACLE"
BETTER, WORSE, FIRST = "▲", "▼", "★"
LEGEND = (
    f"Top-1 accuracy in percent, mean ± standard deviation over orders. {BETTER} / {WORSE}: better / worse than "
    f"zero-shot in every order (exact McNemar test, p < {ALPHA:g}); {FIRST}: also better than the best rival. "
    "Bold: best of the column."
)


@dataclass(frozen=True)
class Cell:
    """One entry. `text` is complete; the rest says how to set it."""

    text: str
    best: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Row:
    """A label and one cell per column; `quoted` rows are printed in a paper, not measured here."""

    label: str
    cells: list[Cell]
    quoted: bool = False


@dataclass(frozen=True)
class Table:
    """A title, column heads, rows and what a reader must know."""

    title: str
    head: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    first: str = "Method"  # the head of the labels' column


def report_tables(results: Results) -> list[Table]:
    """Accuracy in every group, then calibration and cost, and paired differences, for every data set."""
    tables = []
    for group in groups_of(results.records):
        tables.append(accuracy_table(group))
        for column in group.columns:
            tables += [quality_table(group, column), cost_table(group, column)]
    return tables


def accuracy_table(group: Group) -> Table:
    """The paper's layout: methods down, data sets across, an average at the end."""
    columns = group.columns
    means = {(row, column): mean_accuracy(group.records(row, column)) for row in group.rows for column in columns}
    best = {column: max((means[row, column] or -1.0 for row in group.rows), default=-1.0) for column in columns}
    rows, notes = [], [LEGEND, f"Weights {group.weights}: {WEIGHTS[group.weights]}."]
    for key in group.rows:
        cells = [_accuracy_cell(group, key, column, means, best[column]) for column in columns]
        rows.append(Row(row_label(key, group), [*cells, *_averages(group, [means[key, c] for c in columns])]))
        notes += sorted({f"{row_label(key, group)} failed: {reason}" for reason in _reasons(group, key)})
    for printed in published_rows(group.encoder, tuple(columns)):
        known = printed.by_dataset()
        cells = [Cell(f"{known[column]:.2f}" if column in known else "") for column in columns]
        averages = [Cell(f"{value:.2f}") for value in printed.averages] if set(columns) == set(known) else []
        blank = [Cell("")] * (len(_average_heads(group)) - len(averages))
        rows.append(Row(printed.label, [*cells, *averages, *blank], quoted=True))
        notes += [f"Misprint in the paper: {what}." for what in misprints(printed)]
    return Table(group_title(group), [*map(column_title, columns), *_average_heads(group)], rows, notes)


def group_title(group: Group) -> str:
    """Everything that the figures depend on; an oracle is called one."""
    return f"{group.benchmark}: {group.encoder}, {group.order} x {group.orders}, {weights_title(group.weights)}"


def row_label(key: RowKey, group: Group) -> str:
    """The method's name in the papers; the word oracle wherever its figures owe something to the labels."""
    method, variant = key
    label = title_of(method, variant)
    records = [record for (row, _), found in group.cells.items() if row == key for record in found]
    if any(record.about.uses_labels for record in records):
        return f"{label} ({ORACLE})"
    # A sum of several parts in a table of another way of weighing says which it has.
    weighed = sum(value > 0 for value in records[0].weight_values.values()) > 1
    return f"{label} (fixed weights)" if weighed and records[0].about.weights != group.weights else label


def column_title(column: str) -> str:
    """A data set's name as the paper's tables have it."""
    return CROSS_DOMAIN.get(column) or SHIFTS.get(column) or column


def mean_accuracy(records: Sequence[Record]) -> float | None:
    """Percent, over the orders; None if there is none or one has failed."""
    if not records or not all(record.ok for record in records):
        return None
    return 100 * float(np.mean([record.accuracy for record in records]))


def against_baseline(group: Group, key: RowKey, column: str) -> Comparison | None:
    """The method against zero-shot on the same streams."""
    return None if key[0] == BASELINE else compare(group.records(key, column), group.records((BASELINE, ""), column))


def against_rival(group: Group, key: RowKey, column: str) -> tuple[RowKey, Comparison] | None:
    """The method against the best of the others, zero-shot aside; for the best one that is the second best."""
    means = {other: mean_accuracy(group.records(other, column)) for other in group.rows if other[0] != BASELINE}
    others = {other: mean for other, mean in means.items() if other != key and mean is not None}
    if key[0] == BASELINE or not others:
        return None
    rival = max(others, key=lambda other: others[other])
    found = compare(group.records(key, column), group.records(rival, column))
    return None if found is None else (rival, found)


def _accuracy_cell(
    group: Group, key: RowKey, column: str, means: dict[tuple[RowKey, str], float | None], best: float
) -> Cell:
    records = group.records(key, column)
    mean = means[key, column]
    if mean is None:
        return Cell("failed" if records else "not run", failed=bool(records))
    spread = f" ±{100 * np.std([r.accuracy for r in records], ddof=1):.2f}" if len(records) > 1 else ""
    fewer = f" ({len(records)} of {group.orders})" if len(records) < group.orders else ""
    return Cell(f"{mean:.2f}{spread}{fewer}{_marks(group, key, column, mean == best)}", best=mean == best)


def _marks(group: Group, key: RowKey, column: str, is_best: bool) -> str:
    baseline = against_baseline(group, key, column)
    if baseline is None or not baseline.clear:
        return ""
    if baseline.points < 0:
        return f" {WORSE}"
    rival = against_rival(group, key, column) if is_best else None
    return f" {BETTER}{FIRST}" if rival is not None and rival[1].clear else f" {BETTER}"


def _average_heads(group: Group) -> list[str]:
    if len(group.columns) < 2:
        return []
    whole_shifts = set(group.columns) == set(SHIFTS)
    return ["OOD average", "Average"] if whole_shifts else ["Average"]


def _averages(group: Group, means: list[float | None]) -> list[Cell]:
    """In the paper's layout the first of the five shifts, ImageNet itself, is not out of distribution."""
    heads = _average_heads(group)
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return [Cell("–")] * len(heads)
    figures = {"OOD average": known[1:], "Average": known}
    return [Cell(f"{np.mean(figures[head]):.2f}") for head in heads]


def _reasons(group: Group, key: RowKey) -> set[str]:
    return {
        f"{record.about.dataset}: {record.reason}"
        for column in group.columns
        for record in group.records(key, column)
        if not record.ok
    }


def quality_table(group: Group, column: str) -> Table:
    """Calibration and paired differences on one data set, as means over orders."""
    head = ["Accuracy", "Top-5", "ECE", "NLL", "Brier", "vs zero-shot", "vs best rival"]
    note = (
        "Percent, but for NLL and Brier; calibration error in 20 bins. Differences in points, with the largest p-value "
        "of the orders (exact McNemar)."
    )
    rows = [(key, _good(group, key, column)) for key in group.rows]
    cells = [Row(row_label(key, group), _quality(group, key, column, records)) for key, records in rows if records]
    return Table(f"{_column(group, column)}: quality", head, cells, [note])


def cost_table(group: Group, column: str) -> Table:
    """Time, memory and operations on one data set, as means over orders."""
    head = ["images/s", "step ms, p50 / p90 / p99", "state MB", "peak MB", "MFLOPs"]
    note = (
        "One thread, features already encoded. A step is one image that comes alone, with full caches; peak memory is "
        "the whole process. MFLOPs per image are counted by formula, without the encoder."
    )
    rows = [(key, _good(group, key, column)) for key in group.rows]
    cells = [Row(row_label(key, group), _cost(records)) for key, records in rows if records]
    return Table(f"{_column(group, column)}: cost", head, cells, [note])


def _column(group: Group, column: str) -> str:
    return f"{column_title(column)}, {group.encoder}, {group.order}, {weights_title(group.weights)}"


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
    gflops = costs[0].gflops_per_image
    texts = [
        f"{np.mean([cost.images_per_second for cost in costs]):.0f}",
        " / ".join(f"{wait:.2f}" for wait in waits),
        f"{np.mean([cost.state_mb for cost in costs]):.2f}",
        f"{np.mean([cost.peak_memory_mb for cost in costs]):.0f}",
        "not counted" if gflops is None else f"{1000 * gflops:.3g}",
    ]
    return [Cell(text) for text in texts]


def difference_text(found: Comparison | None) -> str:
    """A difference in points with its p-value."""
    if found is None:
        return ""
    p = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}"
    return f"{found.points:+.2f} ({p})"
