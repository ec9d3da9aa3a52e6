"""The table of the paper: methods down, data sets across, with what is clear beyond chance marked."""

import numpy as np

from trimtab.study.bench.plan import WEIGHTS
from trimtab.study.bench.rows import RowKey, images_title, is_part, mean_accuracy, spread, title_of, weights_title
from trimtab.study.tables.groups import Group
from trimtab.study.tables.learned_prompts import notes_on_learned_prompts
from trimtab.study.tables.published import CROSS_DOMAIN, SHIFTS, misprints, published_rows
from trimtab.study.tables.significance import ALPHA, against_baseline, against_rival
from trimtab.study.tables.table import BETTER, FIRST, WORSE, Cell, Row, Table

ORACLE = "ORACLE"
LEGEND = (
    f"Top-1 accuracy in percent, mean ± standard deviation over orders. {BETTER} / {WORSE}: better / worse than "
    f"zero-shot in every order (exact McNemar test, p < {ALPHA:g}); {FIRST}: also better than the best rival. "
    "Bold: best of the column."
)
ORACLE_CELL = f"{ORACLE} in a cell: the row's parameters were tuned on the labels of this very store."
WHY_AUTO_CAN_WIN = (
    "The oracle searches one set of fixed weights for the paper's sum of parts. Auto reweighs the parts along the "
    "stream and takes off what each says whatever the image is, which no fixed weights can do, so it can be higher."
)


def accuracy_table(group: Group) -> Table:
    """The paper's layout: methods down, data sets across, an average at the end."""
    columns = group.columns
    means = {(row, column): mean_accuracy(group.records(row, column)) for row in group.rows for column in columns}
    best = {column: max((means[row, column] or -1.0 for row in group.rows), default=-1.0) for column in columns}
    rows, notes = [], [LEGEND, f"Weights {group.weights}: {WEIGHTS[group.weights]}.", _images_note(group)]
    notes += _oracle_notes(group, means)
    for key in group.rows:
        cells = [_accuracy_cell(group, key, column, means, best[column]) for column in columns]
        rows.append(Row(row_label(key, group), [*cells, *_averages(group, [means[key, c] for c in columns])]))
        notes += sorted({f"{row_label(key, group)} failed: {reason}" for reason in _reasons(group, key)})
    whole = tuple(column for column in columns if not is_part(group.about(column)))
    for printed in published_rows(group.encoder, whole):
        known = printed.by_dataset()
        cells = [Cell(f"{known[column]:.2f}" if column in known and column in whole else "") for column in columns]
        averages = (
            [Cell(f"{value:.2f}") for value in printed.averages] if set(whole) == set(columns) == set(known) else []
        )
        blank = [Cell("")] * (len(_average_heads(group)) - len(averages))
        rows.append(Row(printed.label, [*cells, *averages, *blank], quoted=True))
        notes += [f"Misprint in the paper: {what}." for what in misprints(printed)]
    notes += notes_on_learned_prompts(record for found in group.cells.values() for record in found)
    return Table(
        group_title(group), [*(column_title(group, column) for column in columns), *_average_heads(group)], rows, notes
    )


def group_title(group: Group) -> str:
    """Everything that the figures depend on; an oracle is called one."""
    return f"{group.benchmark}: {group.encoder}, {group.order} x {group.orders}, {weights_title(group.weights)}"


def row_label(key: RowKey, group: Group, column: str | None = None) -> str:
    """The method's name in the papers; ORACLE if all its figures (in a column, if one is given) owe to the labels."""
    label = title_of(*key)
    records = [r for (row, name), found in group.cells.items() if row == key and column in (None, name) for r in found]
    if all(record.about.uses_labels for record in records):
        return f"{label} ({ORACLE})"
    # A sum of several parts in a table of another way of weighing says which it has.
    weighed = sum(value > 0 for value in records[0].weight_values.values()) > 1
    return f"{label} (fixed weights)" if weighed and records[0].about.weights != group.weights else label


def column_title(group: Group, column: str) -> str:
    """A data set's name as the paper's tables have it; a part of a set is called one."""
    title = CROSS_DOMAIN.get(column) or SHIFTS.get(column) or column
    about = group.about(column)
    return f"{title} ({images_title(about)})" if is_part(about) else title


def _images_note(group: Group) -> str:
    counts = [f"{column} {images_title(group.about(column)).rpartition(' ')[0]}" for column in group.columns]
    return f"Images: {', '.join(counts)}."


def _oracle_notes(group: Group, means: dict[tuple[RowKey, str], float | None]) -> list[str]:
    """What a reader of figures that owe to labels must know: where they stand, and why auto can be above them."""
    notes = [ORACLE_CELL] if any(_is_mixed(group, key) for key in group.rows) else []
    if group.weights != "oracle" or not group.auto:
        return notes
    above = []
    for (key, column), records in group.auto.items():
        auto, oracle = mean_accuracy(records), means.get((key, column))
        if auto is not None and oracle is not None and auto > oracle:
            above.append(f"{title_of(*key)} on {column} ({auto:.2f} against {oracle:.2f})")
    return [*notes, WHY_AUTO_CAN_WIN + (f" So it is here: {', '.join(above)}." if above else "")]


def _is_mixed(group: Group, key: RowKey) -> bool:
    """Whether the row owes to labels in some columns only: tuned on one store and run on others."""
    owing = {r.about.uses_labels for (row, _), found in group.cells.items() if row == key for r in found}
    return len(owing) > 1


def _accuracy_cell(
    group: Group, key: RowKey, column: str, means: dict[tuple[RowKey, str], float | None], best: float
) -> Cell:
    records = group.records(key, column)
    mean = means[key, column]
    if mean is None:
        return Cell("failed" if records else "not run", failed=bool(records))
    around = f" ±{spread(records):.2f}" if len(records) > 1 else ""
    fewer = f" ({len(records)} of {group.orders})" if len(records) < group.orders else ""
    owes = f" {ORACLE}" if _is_mixed(group, key) and records[0].about.uses_labels else ""
    return Cell(f"{mean:.2f}{around}{fewer}{owes}{_marks(group, key, column, mean == best)}", best=mean == best)


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
