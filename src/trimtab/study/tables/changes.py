"""What became better or worse between two benchmarks, image by image: tables, and data for programs."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import About
from trimtab.study.bench.rows import images_title, weights_title
from trimtab.study.tables.data import comparison_data
from trimtab.study.tables.side_by_side import Pair, PairedRow, Positions, SideBySide
from trimtab.study.tables.significance import difference_text
from trimtab.study.tables.table import BETTER, WORSE, Cell, Row, Table


def side_by_side_tables(found: SideBySide) -> list[Table]:
    """A table for each data set, kind of order and way of weighing; methods down, A and B across."""
    groups: dict[tuple[str, str, str], list[PairedRow]] = defaultdict(list)
    for row in found.rows:
        groups[row.a.dataset, row.a.order, row.a.weights].append(row)
    tables = [
        Table(
            f"{dataset} ({images_title(rows[0].a)}), {order} x {max(len(row.pairs) for row in rows)}, "
            f"{weights_title(weights)}",
            ["A", "B", "B less A", "only B right", "only A right"],
            [_row(row) for row in rows],
        )
        for (dataset, order, weights), rows in groups.items()
    ]
    notes = [
        f"A: {found.a.path}. B: {found.b.path}.",
        f"Top-1 percent, mean over orders; differences in points with the largest p-value of the orders (exact "
        f"McNemar). {BETTER} / {WORSE}: p < 0.01 in every order. The last two columns count images, over all orders.",
        *(f"Not the same: {difference}." for difference in found.differences),
        *(
            f"Only in {name}: {'; '.join(what)}."
            for name, what in (("A", found.only_in_a), ("B", found.only_in_b))
            if what
        ),
    ]
    tables[-1].notes.extend(notes)
    return tables


def side_by_side_data(found: SideBySide, *, images: bool = False) -> dict[str, Any]:
    """The same as plain data, for programs; with `images`, also which images changed."""
    return {
        "a": str(found.a.path),
        "b": str(found.b.path),
        "differences": found.differences,
        "only_in_a": list(found.only_in_a),
        "only_in_b": list(found.only_in_b),
        "refused": [*found.a.refused, *found.b.refused],
        "pairs": [_row_data(row, images) for row in found.rows],
    }


def changed_images(pair: Pair) -> dict[str, list[dict[str, Any]]]:
    """The images that only one side gets right: place among the labeled images of the stream, position and id.

    Position and id are those of the store, and null where it is not on this disk any more.
    """
    positions, ids = _where(pair)

    def listed(places: Positions) -> list[dict[str, Any]]:
        return [
            {
                "place": int(place),
                "position": None if positions is None else int(positions[place]),
                "id": None if positions is None else ids[positions[place]],
            }
            for place in places
        ]

    return {"only_b_right": listed(pair.gained), "only_a_right": listed(pair.lost)}


def _where(pair: Pair) -> tuple[Positions | None, Sequence[str]]:
    """For each labeled image of the stream its position in the store, and the store's ids."""
    from trimtab.data.orders import order_by_name
    from trimtab.features import FeatureStore

    for about in (pair.a.about, pair.b.about):
        try:
            store = FeatureStore.open(about.store)
        except TrimtabError:
            continue
        if store.fingerprint == about.store_fingerprint:
            order = order_by_name(about.order, labels=store.labels, domains=store.domains, seed=about.seed)
            return order[store.labels[order] >= 0], store.ids
    return None, ()


def _row(row: PairedRow) -> Row:
    found = row.comparison
    mark = f" {BETTER if found.points > 0 else WORSE}" if found.clear else ""
    texts = [
        f"{row.accuracy('a'):.2f}",
        f"{row.accuracy('b'):.2f}",
        difference_text(found) + mark,
        f"{sum(len(pair.gained) for pair in row.pairs):,}",
        f"{sum(len(pair.lost) for pair in row.pairs):,}",
    ]
    return Row(row.label, [Cell(text) for text in texts])


def _row_data(row: PairedRow, images: bool) -> dict[str, Any]:
    return {
        "dataset": row.a.dataset,
        "images": row.a.images,
        "order": row.a.order,
        "a": _about_data(row.a),
        "b": _about_data(row.b),
        "accuracy_a": row.accuracy("a"),
        "accuracy_b": row.accuracy("b"),
        **(comparison_data(row.comparison) or {}),
        "orders": [
            {
                "seed": pair.a.about.seed,
                "accuracy_a": 100 * pair.a.accuracy,
                "accuracy_b": 100 * pair.b.accuracy,
                "p": pair.p,
                "only_b_right": len(pair.gained),
                "only_a_right": len(pair.lost),
                **({"changed": changed_images(pair)} if images else {}),
            }
            for pair in row.pairs
        ],
    }


def _about_data(about: About) -> dict[str, Any]:
    names = ("method", "variant", "weights", "encoder", "views", "parameters")
    return {**{name: getattr(about, name) for name in names}, "oracle": about.uses_labels}
