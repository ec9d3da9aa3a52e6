"""Is one method really better than another? Image by image, on the same stream."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import TrimtabError
from trimtab.study.bench.record import Record

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
