"""The table of an ablation study."""

from trimtab.study.ablations.findings import Findings
from trimtab.study.tables.significance import compare, difference_text
from trimtab.study.tables.table import Cell, Row, Table


def ablation_table(found: Findings) -> Table:
    """Every point with its difference from zero-shot and from the paper's own setting."""
    reference, base = found.reference, found.zero_shot_accuracy
    rows = []
    for outcome in found.outcomes:
        if outcome.mean is None:
            reason = next(record.reason for record in outcome.records if not record.ok)
            rows.append(Row(outcome.point.label, [Cell("failed", failed=True), Cell(""), Cell(reason)]))
            continue
        versus = compare(outcome.records, reference.records) if reference and outcome is not reference else None
        texts = [f"{outcome.mean:.2f} ±{outcome.spread:.2f}", f"{outcome.mean - base:+.2f}", difference_text(versus)]
        rows.append(Row(outcome.point.label, [Cell(text) for text in texts]))
    notes = [f"Zero-shot {base:.2f}. Top-1 percent, mean ± standard deviation over orders; differences in points."]
    if reference:
        notes.append(f"Reference: {reference.point.label}; exact McNemar test, largest p-value of the orders.")
    head = ["Accuracy", "vs zero-shot", "vs reference"]
    return Table(f"{found.ablation.study.title}: {found.where}", head, rows, notes, first="Setting")
