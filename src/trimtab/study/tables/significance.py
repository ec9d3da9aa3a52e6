"""Is one method really better than another? Image by image, on the same stream."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import BASELINE
from trimtab.study.bench.record import Record
from trimtab.study.bench.rows import RowKey, mean_accuracy
from trimtab.study.tables.groups import Group

ALPHA = 0.01


@dataclass(frozen=True)
class Comparison:
    """A method against another on the same streams."""

    points: float  # mean difference in accuracy over the orders, in percentage points
    p: float  # the largest of the orders' p-values: the difference holds in every order or it does not count
    orders: int

    @property
    def clear(self) -> bool:
        """Whether the difference is there in every order beyond chance."""
        return self.p < ALPHA and self.points != 0


def mcnemar(ours: Record, theirs: Record) -> float:
    """Two-sided exact McNemar test: of the images that only one of them gets right, is half a fair share?"""
    from scipy.stats import binomtest

    mine, other = ours.correct_images(), theirs.correct_images()
    if len(mine) != len(other):
        raise TrimtabError(
            f"{ours.about.method} and {theirs.about.method} saw {len(mine)} and {len(other)} images of "
            f"{ours.about.dataset}; run both on the same store."
        )
    only_mine, only_other = int((mine & ~other).sum()), int((other & ~mine).sum())
    if only_mine + only_other == 0:
        return 1.0
    return float(binomtest(only_mine, only_mine + only_other).pvalue)


def compare(ours: Sequence[Record], theirs: Sequence[Record]) -> Comparison | None:
    """Over the orders that both have run; None if there is none."""
    others = {record.about.seed: record for record in theirs if record.ok}
    pairs = [(record, others[record.about.seed]) for record in ours if record.ok and record.about.seed in others]
    if not pairs:
        return None
    differences = [100 * (mine.accuracy - other.accuracy) for mine, other in pairs]
    signs = {np.sign(difference) for difference in differences}
    p = max(mcnemar(mine, other) for mine, other in pairs) if len(signs) == 1 else 1.0
    return Comparison(float(np.mean(differences)), p, len(pairs))


def against_baseline(group: Group, key: RowKey, column: str) -> Comparison | None:
    """The method against zero-shot on the same streams."""
    return None if key[0] == BASELINE else compare(group.records(key, column), group.records((BASELINE, ""), column))


def against_rival(group: Group, key: RowKey, column: str) -> tuple[RowKey, Comparison] | None:
    """The method against the best of the others, zero-shot aside; for the best one that is the second best."""
    means = {other: mean_accuracy(group.records(other, column)) for other in group.rows if other[0] != BASELINE}
    others = {other: mean for other, mean in means.items() if other != key and mean is not None}
    if key[0] == BASELINE or not others:
        return None
    rival = max(others, key=lambda other: others[other])
    found = compare(group.records(key, column), group.records(rival, column))
    return None if found is None else (rival, found)


def difference_text(found: Comparison | None) -> str:
    """A difference in points with its p-value."""
    if found is None:
        return ""
    p = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}"
    return f"{found.points:+.2f} ({p})"
