"""The table of an ablation study, and the same as plain data."""

from typing import Any

from trimtab.study.ablations.findings import Findings
from trimtab.study.bench.rows import images_title
from trimtab.study.tables.data import comparison_data
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
        around = f" ±{outcome.spread:.2f}" if len(outcome.records) > 1 else ""
        texts = [f"{outcome.mean:.2f}{around}", f"{outcome.mean - base:+.2f}", difference_text(versus)]
        rows.append(Row(outcome.point.label, [Cell(text) for text in texts]))
    images = images_title(found.zero_shot[0].about)
    notes = [
        f"{images}. Zero-shot {base:.2f}. Top-1 percent, mean ± standard deviation over orders; differences in points."
    ]
    if reference:
        notes.append(f"Reference: {reference.point.label}; exact McNemar test, largest p-value of the orders.")
    head = ["Accuracy", "vs zero-shot", "vs reference"]
    return Table(f"{found.ablation.study.title}: {found.where}", head, rows, notes, first="Setting")


def ablation_data(found: Findings) -> dict[str, Any]:
    """Every point of a study for programs."""
    about, reference = found.zero_shot[0].about, found.reference
    return {
        "title": found.ablation.study.title,
        "axes": list(found.ablation.study.axes),
        "dataset": about.dataset,
        "images": about.images,
        "encoder": about.encoder,
        "weights": found.ablation.weights,
        "oracle": found.ablation.weights == "oracle",
        "zero_shot": found.zero_shot_accuracy,
        "points": [
            {
                "setting": outcome.point.label,
                "at": list(outcome.point.at),
                "method": outcome.point.method,
                "parameters": outcome.point.parameters,
                "reference": outcome.point.reference,
                "orders": len(outcome.records),
                "accuracy": outcome.mean,
                "spread": None if outcome.mean is None else outcome.spread,
                "failed": [record.reason for record in outcome.records if not record.ok],
                "versus_reference": comparison_data(compare(outcome.records, reference.records))
                if reference and outcome is not reference
                else None,
            }
            for outcome in found.outcomes
        ],
    }
