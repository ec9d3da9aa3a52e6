"""Two benchmarks side by side, run by run: the same images in the same order, the same method and weights.

Encoders, views, prompts, parameters and code may differ, and are named where they do. Two single records are paired
whatever their methods.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import About, Record, read_record
from trimtab.study.bench.results import read_results
from trimtab.study.bench.rows import in_table_order, mean_accuracy, row_of, title_of
from trimtab.study.tables.significance import Comparison, compare, mcnemar

Key = tuple[str, ...]
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Side:
    """One of the two: a folder of results, or a single record."""

    path: Path
    records: tuple[Record, ...]
    note: str = ""
    refused: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of results."""
        return self.path.is_dir()


@dataclass(frozen=True)
class Pair:
    """The same stream in both, one order of it."""

    a: Record
    b: Record

    @property
    def p(self) -> float:
        """Exact McNemar test of this order."""
        return mcnemar(self.b, self.a)

    @property
    def gained(self) -> Positions:
        """The labeled images of the stream, counted from 0, that only B gets right."""
        return np.flatnonzero(self.b.correct_images() & ~self.a.correct_images())

    @property
    def lost(self) -> Positions:
        """Those that only A gets right."""
        return np.flatnonzero(self.a.correct_images() & ~self.b.correct_images())


@dataclass(frozen=True)
class PairedRow:
    """One method on one data set in one kind of order, over all orders that both have."""

    pairs: tuple[Pair, ...]

    @property
    def a(self) -> About:
        """What A has run."""
        return self.pairs[0].a.about

    @property
    def b(self) -> About:
        """What B has run."""
        return self.pairs[0].b.about

    @property
    def label(self) -> str:
        """The method's name; both names where they differ, and ORACLE where a figure owes to labels."""
        names = [title_of(*row_of(record)) for record in (self.pairs[0].a, self.pairs[0].b)]
        oracle = " (ORACLE)" if self.a.uses_labels or self.b.uses_labels else ""
        return " → ".join(dict.fromkeys(names)) + oracle

    @property
    def comparison(self) -> Comparison:
        """B less A, as in the other tables."""
        found = compare([pair.b for pair in self.pairs], [pair.a for pair in self.pairs])
        assert found is not None  # a row has at least one pair
        return found

    def accuracy(self, side: str) -> float:
        """Percent, mean over the orders."""
        mean = mean_accuracy([getattr(pair, side) for pair in self.pairs])
        assert mean is not None  # failed runs are not paired
        return mean


@dataclass(frozen=True)
class SideBySide:
    """What two benchmarks have in common, and what only one of them has."""

    a: Side
    b: Side
    rows: tuple[PairedRow, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def differences(self) -> list[str]:
        """What is not the same in both, besides the figures."""
        found: dict[tuple[str, Any, Any], None] = {}
        for row in self.rows:
            for name in ("encoder", "views", "prompts", "method", "weights"):
                found[name, getattr(row.a, name), getattr(row.b, name)] = None
            if row.a.method == row.b.method:
                versions = row.pairs[0].a.versions, row.pairs[0].b.versions
                found[f"code behind {row.a.method}", versions[0].get("code"), versions[1].get("code")] = None
                for name in sorted(row.a.parameters.keys() | row.b.parameters.keys()):
                    values = (row.a.parameters.get(name), row.b.parameters.get(name))
                    found[f"{row.a.method}'s {name}", str(values[0]), str(values[1])] = None
        return [f"{what}: {first} in A, {second} in B" for what, first, second in found if first != second]


def read_side(path: str | Path) -> Side:
    """A folder of results, or one record."""
    place = Path(path).expanduser()
    if place.is_file():
        return Side(place, (read_record(place),))
    found = read_results(place)
    return Side(place, found.records, found.note, found.refused)


def side_by_side(a: Side, b: Side) -> SideBySide:
    """Pair what is comparable, or say in one sentence why nothing is."""
    if a.is_folder != b.is_folder:
        raise TrimtabError(
            f"One of {a.path} and {b.path} is a folder and the other a single record; give two folders or two records."
        )
    if not a.is_folder:
        for side in (a, b):
            if not side.records[0].ok:
                raise TrimtabError(f"{side.path} is the record of a run that failed: {side.records[0].reason}.")
        return SideBySide(a, b, (PairedRow((_checked(a, a.records[0], b, b.records[0]),)),), (), ())
    ours, theirs = _keyed(a, b)
    rows: dict[Key, list[Pair]] = defaultdict(list)
    for key in ours:
        if key in theirs:
            *row, _ = key
            rows[tuple(row)].append(_checked(a, ours[key], b, theirs[key]))
    if not rows:
        raise TrimtabError(
            f"{a.path} and {b.path} have no run in common (the same data set, order, method and weights, finished in "
            f"both): A has {_contents(a)}; B has {_contents(b)}."
        )
    found = (PairedRow(tuple(sorted(pairs, key=lambda pair: pair.a.about.seed))) for pairs in rows.values())
    alone = [
        _described(mine[key].about for key in mine if key not in other)
        for mine, other in ((ours, theirs), (theirs, ours))
    ]
    return SideBySide(a, b, tuple(_in_order(found)), *alone)


def _keyed(a: Side, b: Side) -> tuple[dict[Key, Record], dict[Key, Record]]:
    """Run -> record on both sides. Variant, encoder and views count only where a run would be ambiguous without."""
    finished = [[record for record in side.records if record.ok] for side in (a, b)]
    for extra in ((), ("variant",), ("encoder", "views"), ("variant", "encoder", "views")):
        keyed = [{_key(record.about, extra): record for record in records} for records in finished]
        if all(len(found) == len(records) for found, records in zip(keyed, finished, strict=True)):
            break
    return keyed[0], keyed[1]


def _key(about: About, extra: Sequence[str]) -> Key:
    names = ("dataset", "order", "weights", "method", *extra, "seed")
    return tuple(str(getattr(about, name)) for name in names)


def _checked(a: Side, mine: Record, b: Side, theirs: Record) -> Pair:
    """A pair, if the test may pair their images."""
    first, second = mine.about, theirs.about
    sides = f"{a.path} and {b.path}"
    if first.dataset != second.dataset:
        raise TrimtabError(f"{sides} are about {first.dataset} and {second.dataset}; compare runs on the same images.")
    if first.images_fingerprint != second.images_fingerprint or not first.images_fingerprint:
        raise TrimtabError(
            f"{sides} hold different images of {first.dataset} ({first.images:,} and {second.images:,}), which cannot "
            "be paired; compare runs on the same images."
        )
    if (first.order, first.seed) != (second.order, second.seed):
        raise TrimtabError(
            f"{sides} saw {first.dataset} in different orders ({first.order} {first.seed} and "
            f"{second.order} {second.seed}); compare runs on the same stream."
        )
    return Pair(mine, theirs)


def _in_order(rows: Iterable[PairedRow]) -> list[PairedRow]:
    by_key: dict[tuple[str, str], list[PairedRow]] = defaultdict(list)
    for row in rows:
        by_key[row_of(row.pairs[0].a)].append(row)
    return [row for key in in_table_order(by_key) for row in by_key[key]]


def _described(abouts: Iterable[About]) -> tuple[str, ...]:
    """Runs in words, with the number of their orders."""
    count = Counter((title_of(a.method, a.variant), a.dataset, a.order, a.weights) for a in abouts)
    return tuple(
        f"{title} on {dataset}, {order} x {orders}, weights {weights}"
        for (title, dataset, order, weights), orders in sorted(count.items())
    )


def _contents(side: Side) -> str:
    sets = sorted({record.about.dataset for record in side.records})
    methods = sorted({record.about.method for record in side.records})
    return f"{', '.join(methods)} on {', '.join(sets)}"
