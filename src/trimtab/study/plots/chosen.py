"""Which records a figure is about."""

from collections.abc import Sequence

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.bench.rows import RowKey, in_table_order, row_of, under_weights, views_title


def records_for(
    results: Results, *, weights: str, dataset: str | None = None, order: str | None = None
) -> list[Record]:
    """The good records under one way of weighing, on one kind of order; methods of one part have only one way.

    `dataset` may name several data sets, with commas between them.
    """
    names = chosen_datasets(results, dataset)
    good = [record for record in results.records if record.ok]
    found = under_weights(good, weights)
    wanted = order or most_usual([record.about.order for record in found])
    found = [record for record in found if record.about.order == wanted and record.about.dataset in names]
    if not any(record.about.weights == weights for record in found):  # those of one part alone would mislead
        datasets = ", ".join(sorted({record.about.dataset for record in good}))
        raise TrimtabError(
            f"{results.folder} has no finished runs for that figure (weights {weights}, order {wanted}); "
            f"its data sets are {datasets}."
        )
    _refuse_mixed_stores(results, found)
    return found


def chosen_datasets(results: Results, dataset: str | None) -> list[str]:
    """The data sets asked for, or all there are."""
    names = sorted({record.about.dataset for record in results.records})
    if dataset is None:
        return names
    wanted = [dataset] if dataset in names else [name.strip() for name in dataset.split(",")]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise TrimtabError(f"{results.folder} has no data set {unknown[0]!r}; it has {', '.join(names)}.")
    return list(dict.fromkeys(wanted))


def only_dataset(results: Results, dataset: str | None) -> str:
    """The data set asked for, or the only one there is."""
    names = chosen_datasets(results, dataset)
    if len(names) != 1:
        raise TrimtabError(f"This figure shows one data set; choose it with --dataset: {', '.join(names)}.")
    return names[0]


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


def count_orders(records: Sequence[Record]) -> int:
    """How many orders of the stream the records have."""
    return len({record.about.seed for record in records})


def orders_title(records: Sequence[Record]) -> str:
    """The orders that a figure is about, in words: "3 shuffled orders", "1 class-sorted order"."""
    count, kind = count_orders(records), most_usual([record.about.order for record in records])
    return f"{count} {kind} order{'' if count == 1 else 's'}"


def _refuse_mixed_stores(results: Results, records: Sequence[Record]) -> None:
    """One figure must not average over encoders, or over numbers of views, that only share a data set's name."""
    stores: dict[tuple[RowKey, str], set[str]] = {}
    for record in records:
        about = record.about
        found = stores.setdefault((row_of(record), about.dataset), set())
        found.add(f"{about.encoder} with {views_title(about.views)}")
        if len(found) > 1:
            raise TrimtabError(
                f"{results.folder} has {about.dataset} from several stores ({', '.join(sorted(found))}), which one "
                "figure would mix; keep their results in different folders."
            )
