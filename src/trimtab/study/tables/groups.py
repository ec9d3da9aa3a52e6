"""Which records may share a table: one encoder, one kind of order, one way of weighing; each column one store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import WEIGHTS
from trimtab.study.bench.record import About, Record
from trimtab.study.bench.rows import RowKey, in_table_order, row_of, title_of, under_weights, views_title
from trimtab.study.tables.published import CROSS_DOMAIN, SHIFTS

Cells = dict[tuple[RowKey, str], list[Record]]


@dataclass(frozen=True)
class Group:
    """The records of one table: columns are data sets, rows are methods, a cell has one record per order."""

    benchmark: str
    encoder: str
    order: str
    weights: str
    cells: Cells
    auto: Cells = field(default_factory=dict)  # the same cells under weights found without labels, beside an oracle's

    @property
    def rows(self) -> list[RowKey]:
        """Zero-shot, then the other methods; variants after the plain method."""
        return in_table_order(row for row, _ in self.cells)

    @property
    def columns(self) -> list[str]:
        """Data sets in the paper's order; others by name."""
        paper = {name: place for place, name in enumerate([*CROSS_DOMAIN, *SHIFTS])}
        return sorted(dict.fromkeys(column for _, column in self.cells), key=lambda name: (paper.get(name, 99), name))

    @property
    def orders(self) -> int:
        """How many orders a finished cell has."""
        return max(len(records) for records in self.cells.values())

    def records(self, row: RowKey, column: str) -> list[Record]:
        """One for each order."""
        return self.cells.get((row, column), [])

    def about(self, column: str) -> About:
        """What the column's store is; the same in each of its records."""
        return next(found[0].about for (_, name), found in self.cells.items() if name == column)


def benchmark_of(dataset: str) -> str:
    """The table of the paper that a data set belongs to."""
    if dataset in CROSS_DOMAIN:
        return "Cross-domain benchmark"
    return "Natural distribution shifts" if dataset in SHIFTS else "Other sets"


def groups_of(records: Sequence[Record]) -> list[Group]:
    """All tables that the records make, in a fixed order."""
    names = column_names(records)
    found: dict[tuple[str, str, str, str], Cells] = {}
    used = [weights for weights in WEIGHTS if any(record.about.weights == weights for record in records)]
    for weights in used:
        for record in sorted(under_weights(records, weights), key=lambda record: record.about.seed):
            about = record.about
            key = (benchmark_of(about.dataset), about.encoder, about.order, weights)
            cell = found.setdefault(key, {}).setdefault((row_of(record), names[store_of(about)]), [])
            _refuse_twice(cell, record)
            cell.append(record)
    rank = {"Cross-domain benchmark": 0, "Natural distribution shifts": 1}
    keys = sorted(
        found, key=lambda key: (rank.get(key[0], 2), key[1], key[2] != "shuffled", key[2], used.index(key[3]))
    )
    return [Group(*key, found[key], found.get((*key[:3], "auto"), {}) if key[3] == "oracle" else {}) for key in keys]


def _refuse_twice(cell: Sequence[Record], record: Record) -> None:
    """One row must not average two settings that only share a name."""
    about = record.about
    if any(other.about.seed == about.seed for other in cell):
        raise TrimtabError(
            f"There are two different runs of {title_of(*row_of(record))} on {about.dataset}, {about.order} "
            f"{about.seed}, weights {about.weights}; keep their results in different folders."
        )


def store_of(about: About) -> tuple[str, str, int]:
    """What a column stands for."""
    return about.encoder, about.dataset, about.views


def column_names(records: Iterable[Record]) -> dict[tuple[str, str, int], str]:
    """A name for each column, after checking that every column is one store."""
    stores: dict[tuple[str, str, int], About] = {}
    for record in records:
        about = record.about
        first = stores.setdefault(store_of(about), about)
        if first.class_names != about.class_names:
            problem = f"different class lists ({len(first.class_names)} and {len(about.class_names)} classes)"
        elif first.task_fingerprint != about.task_fingerprint:
            problem = "different prompts, and a table must hold prompts equal"
        elif first.store_fingerprint != about.store_fingerprint:
            problem = "different images"
        else:
            continue
        raise TrimtabError(
            f"The stores {first.store} and {about.store} are both called {about.dataset!r} but have {problem}; "
            "keep their results in different folders."
        )
    several = {key[:2] for key in stores if sum(other[:2] == key[:2] for other in stores) > 1}
    return {key: f"{key[1]} ({views_title(key[2])})" if key[:2] in several else key[1] for key in stores}
