"""Which records belong together (a row of a table, a line of a figure), what they are called and what they average."""

from collections.abc import Iterable, Sequence

import numpy as np

from trimtab.data.catalog import FREE_SETS, find_entry
from trimtab.errors import TrimtabError
from trimtab.methods import info_of, list_methods
from trimtab.study.bench.record import About, Record

RowKey = tuple[str, str]  # method, variant


def title_of(method: str, variant: str = "") -> str:
    """A method's name for people."""
    try:
        title = info_of(method).title
    except TrimtabError:  # a record of a method that is not installed here
        title = method
    return title + (f" [{variant}]" if variant else "")


def weights_title(weights: str) -> str:
    """How a table or a figure names its weights; an oracle is called one."""
    return "ORACLE weights (test labels)" if weights == "oracle" else f"weights {weights}"


def views_title(views: int) -> str:
    """How a column or a setting names its number of views."""
    return f"{views} view" if views == 1 else f"{views} views"


def images_title(about: About) -> str:
    """How many images a figure stands for; "2,000 of 10,000 images" where the store holds only a part of its set."""
    whole = full_size(about.dataset)
    part = f"{about.images:,} of {whole:,}" if is_part(about) else f"{about.images:,}"
    return f"{part} {'image' if part == '1' else 'images'}"


def is_part(about: About) -> bool:
    """Whether the store is known to hold only some images of its data set, as `encode --limit` makes it."""
    return about.images < (full_size(about.dataset) or 0)


def full_size(dataset: str) -> int | None:
    """How many test images a known data set has, under a shift too; None for the user's own."""
    name = dataset.partition("+")[0]
    entry = find_entry(name)
    if entry is not None:
        return entry.test_size
    return FREE_SETS[name].size if name in FREE_SETS else None


def row_of(record: Record) -> RowKey:
    """What stands in one row of a table, or is one line in a figure."""
    return record.about.method, record.about.variant


def in_table_order(rows: Iterable[RowKey]) -> list[RowKey]:
    """Zero-shot first, then the methods as trimtab's own table has them; variants after the plain method."""
    rank = {name: place for place, name in enumerate(list_methods())}
    return sorted(set(rows), key=lambda row: (rank.get(row[0], len(rank)), row))


def under_weights(records: Sequence[Record], weights: str) -> list[Record]:
    """The records under one way of weighing; rows that do not know it (one part has nothing to weigh) as they are."""
    knowing = {row_of(record) for record in records if record.about.weights == weights}
    return [r for r in records if r.about.weights == (weights if row_of(r) in knowing else "fixed")]


def mean_accuracy(records: Sequence[Record]) -> float | None:
    """Percent, over the orders of one data set; None if there is none or one has failed."""
    if not records or not all(record.ok for record in records):
        return None
    return 100 * float(np.mean([record.accuracy for record in records]))


def spread(records: Sequence[Record]) -> float:
    """The standard deviation of the accuracy over orders, in points; 0 for a single order."""
    return 100 * float(np.std([record.accuracy for record in records], ddof=1)) if len(records) > 1 else 0.0
