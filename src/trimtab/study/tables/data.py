"""The figures of the tables as plain data, for programs: one entry per method, data set, kind of order and weights."""

from typing import Any

import numpy as np

from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import RowKey, full_size, mean_accuracy, spread, title_of
from trimtab.study.tables.groups import Group, groups_of
from trimtab.study.tables.significance import Comparison, against_baseline, against_rival

PERCENT = ("top5", "ece")  # the other scores have no unit


def report_data(results: Results) -> dict[str, Any]:
    """Everything that the tables of a report show, unrounded."""
    groups = groups_of(results.records)
    figures = [_figure(g, row, column) for g in groups for row in g.rows for column in g.columns]
    return {
        "folder": str(results.folder),
        "missing": list(results.missing),
        "refused": list(results.refused),
        "figures": [figure for figure in figures if figure is not None],
    }


def comparison_data(found: Comparison | None) -> dict[str, Any] | None:
    """A paired difference: points, the largest p-value of the orders, and whether it counts."""
    if found is None:
        return None
    return {"points": found.points, "p": found.p, "clear": found.clear, "orders": found.orders}


def _figure(group: Group, row: RowKey, column: str) -> dict[str, Any] | None:
    records = group.records(row, column)
    if not records:
        return None
    about, mean = group.about(column), mean_accuracy(records)
    rival = against_rival(group, row, column)
    return {
        "dataset": about.dataset,
        "images": about.images,
        "images_of_the_whole_set": full_size(about.dataset),
        "views": about.views,
        "encoder": group.encoder,
        "order": group.order,
        "weights": group.weights,
        "method": row[0],
        "variant": row[1],
        "title": title_of(*row),
        "oracle": any(record.about.uses_labels for record in records),
        "orders": len(records),
        "failed": [record.reason for record in records if not record.ok],
        "accuracy": mean,
        "spread": None if mean is None else spread(records),
        **(_scores(records) if mean is not None else {}),
        "versus_zero_shot": comparison_data(against_baseline(group, row, column)),
        "versus_best_rival": rival and {"rival": title_of(*rival[0]), **(comparison_data(rival[1]) or {})},
    }


def _scores(records: list[Record]) -> dict[str, Any]:
    """Means over the orders."""
    scores = {name: float(np.mean([r.scores[name] for r in records])) for name in ("top5", "ece", "nll", "brier")}
    costs = [record.cost for record in records if record.cost is not None]
    names = ("images_per_second", "state_mb", "peak_memory_mb")
    cost: dict[str, Any] = {name: float(np.mean([getattr(cost, name) for cost in costs])) for name in names}
    waits = {name: float(np.mean([cost.step_ms[name] for cost in costs])) for name in costs[0].step_ms}
    return {
        **{name: 100 * value if name in PERCENT else value for name, value in scores.items()},
        "cost": {
            **cost,
            "step_ms": waits,
            "gflops_per_image": costs[0].gflops_per_image,
            "text_encoder_gflops": costs[0].text_encoder_gflops,
            "views_per_image": _mean([cost.views_per_image for cost in costs]),
        },
    }


def _mean(found: list[float | None]) -> float | None:
    """Of the figures that there are."""
    there = [value for value in found if value is not None]
    return float(np.mean(there)) if there else None
