"""Which records belong together: one row of a table, one line of a figure."""

from collections.abc import Sequence

from trimtab.bench.record import Record

RowKey = tuple[str, str]  # method, variant


def row_of(record: Record) -> RowKey:
    """What stands in one row of a table, or is one line in a figure."""
    return record.about.method, record.about.variant


def under_weights(records: Sequence[Record], weights: str) -> list[Record]:
    """The records under one way of weighing; rows that do not know it (one part has nothing to weigh) as they are."""
    knowing = {row_of(record) for record in records if record.about.weights == weights}
    return [r for r in records if r.about.weights == (weights if row_of(r) in knowing else "fixed")]
