"""Which records a figure is about."""

from collections.abc import Sequence

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import RowKey, in_table_order, row_of, under_weights


def records_for(
    results: Results, *, weights: str, dataset: str | None = None, order: str | None = None
) -> list[Record]:
    """The good records under one way of weighing, on one kind of order; methods of one part have only one way."""
    good = [record for record in results.records if record.ok]
    found = under_weights(good, weights)
    wanted = order or most_usual([record.about.order for record in found])
    found = [record for record in found if record.about.order == wanted]
    if dataset is not None:
        found = [record for record in found if record.about.dataset == dataset]
    if not found:
        datasets = ", ".join(sorted({record.about.dataset for record in good}))
        raise TrimtabError(
            f"{results.folder} has no finished runs for that figure (weights {weights}, order {wanted}); "
            f"its data sets are {datasets}."
        )
    return found


def only_dataset(results: Results, dataset: str | None) -> str:
    """The data set asked for, or the only one there is."""
    names = sorted({record.about.dataset for record in results.records})
    if dataset is None and len(names) == 1:
        return names[0]
    if dataset not in names:
        raise TrimtabError(f"Choose a data set with --dataset: {', '.join(names)}.")
    return dataset


def by_method(records: Sequence[Record]) -> dict[RowKey, list[Record]]:
    """Each method's records, in the order of their seeds; methods in the order of the tables."""
    found: dict[RowKey, list[Record]] = {row: [] for row in in_table_order(map(row_of, records))}
    for record in sorted(records, key=lambda record: record.about.seed):
        found[row_of(record)].append(record)
    return found


def mean_over_datasets(records: Sequence[Record]) -> float:
    """Percent: first over the orders of each data set, then over data sets."""
    datasets: dict[str, list[float]] = {}
    for record in records:
        datasets.setdefault(record.about.dataset, []).append(record.accuracy)
    return 100 * float(np.mean([np.mean(accuracies) for accuracies in datasets.values()]))


def most_usual(names: Sequence[str]) -> str:
    """The commonest; "shuffled" if there is nothing to choose from."""
    return max(sorted(set(names)), key=names.count) if names else "shuffled"
