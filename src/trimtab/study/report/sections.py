"""What stands together in a report: each table with the figures that are drawn from the same records."""

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import Record
from trimtab.study.bench.results import Results
from trimtab.study.figures import FIGURES, draw
from trimtab.study.plots import as_bytes
from trimtab.study.tables import Group, Table, accuracy_table, cost_table, groups_of, quality_table
from trimtab.study.tables.accuracy import column_title


@dataclass(frozen=True)
class Picture:
    """A figure as a PNG, and what it shows."""

    caption: str
    png: bytes


@dataclass(frozen=True)
class Section:
    """A title, tables and figures in the order of reading, and sections below it."""

    title: str
    blocks: tuple[Table | Picture, ...]
    below: tuple["Section", ...] = ()


def sections_of(results: Results) -> list[Section]:
    """A section for each accuracy table, and below it one for each of its data sets."""
    return [_group_section(results, group) for group in groups_of(results.records)]


def _group_section(results: Results, group: Group) -> Section:
    table = accuracy_table(group)
    records = [record for found in group.cells.values() for record in found]
    overall = _pictures(("cost", "compactness"), results, records, group.weights)
    below = tuple(_column_section(results, group, column) for column in group.columns)
    return Section(table.title, (table, *overall), below)


def _column_section(results: Results, group: Group, column: str) -> Section:
    records = [record for row in group.rows for record in group.records(row, column)]
    quality = _pictures(("along", "reliability", "per-class"), results, records, group.weights)
    return Section(column_title(group, column), (quality_table(group, column), *quality, cost_table(group, column)))


def _pictures(names: Iterable[str], results: Results, records: list[Record], weights: str) -> list[Picture]:
    """The figures that these records allow."""
    own, found = Results(results.folder, tuple(records), ()), []
    for name in names:
        try:
            axes = draw(name, own, weights=weights)
        except TrimtabError:
            continue  # too few data sets, or a method was not run: a page without that figure is still a page
        found.append(Picture(_sentence(FIGURES[name].about), as_bytes(axes)))
    return found


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
