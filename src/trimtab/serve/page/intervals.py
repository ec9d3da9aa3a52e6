"""Intervals for an accuracy that a person measured on a sample: pure arithmetic on counts.

A frame of N images is cut into strata of known sizes, the flips (whose answer differs from zero-shot's) and the others.
A person labels a random sample of each. Shares of the frame are weighted means of the strata's shares:

* one share: Wilson's score interval (1927), with the sample counted as n (N - 1) / (N - n) images, because it was drawn
  without putting back: where all were labeled, nothing is left to guess;
* a weighted mean of independent shares: the distances from each share to its Wilson limits, added as squares (MOVER;
  Zou, Huang and Zhang, Biometrical Journal 2009). Unlike a normal approximation it holds for small counts and shares
  near 0 and 1;
* the difference between two classifiers is made by the flips alone: elsewhere both give the same answer. Among flips it
  is a difference of paired shares, for which Bonett and Price's interval (Journal of Educational and Behavioral
  Statistics, 2012) is used: Wald's, with one more image on either side.

Images that the person could not name count as wrong in each lower limit and as right in each upper one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True)
class Interval:
    """A share or a difference of shares, with the limits between which it lies at the level of 95 %."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Stratum:
    """What a person found in one part of the frame."""

    images: int  # N, in the frame
    right: int  # labeled images whose answer is right
    wrong: int
    unnamed: int = 0  # the person could not tell

    @property
    def labeled(self) -> int:
        """How many the person could name."""
        return self.right + self.wrong


def wilson(right: float, count: float) -> tuple[float, float]:
    """Wilson's limits of a share, `right` of `count`."""
    share, spread = right / count, Z * Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def share_of(strata: Sequence[Stratum]) -> Interval | None:
    """The share of a frame whose answer is right; None while a stratum has no label."""
    present = [stratum for stratum in strata if stratum.images]
    if not present or any(stratum.labeled == 0 for stratum in present):
        return None
    frame = sum(stratum.images for stratum in present)
    middle = sum(stratum.images * stratum.right / stratum.labeled for stratum in present) / frame
    low = _limit([(s.images, s.right, s.labeled + s.unnamed) for s in present], frame, side=0)
    high = _limit([(s.images, s.right + s.unnamed, s.labeled + s.unnamed) for s in present], frame, side=1)
    return Interval(middle, max(0.0, low), min(1.0, high))


def _limit(parts: Sequence[tuple[int, int, int]], frame: int, side: int) -> float:
    """One limit of a weighted mean of shares: (N, right, n) of each stratum; side 0 is the lower one."""
    total, squares = 0.0, 0.0
    for images, right, count in parts:
        share, weight = right / count, images / frame
        total += weight * share
        squares += (weight * (wilson(share * _worth(count, images), _worth(count, images))[side] - share)) ** 2
    return total - sqrt(squares) if side == 0 else total + sqrt(squares)


def difference_of(images: int, frame: int, adapted: int, zero_shot: int, neither: int, unnamed: int) -> Interval | None:
    """How much more often adapted answers are right: `images` flips in the frame, who was right among the labeled."""
    if images == 0:
        return Interval(0.0, 0.0, 0.0)
    named = adapted + zero_shot + neither
    if named == 0:
        return None
    weight, count = images / frame, named + unnamed
    low = _paired(adapted, zero_shot + unnamed, count, images)[0]
    high = _paired(adapted + unnamed, zero_shot, count, images)[1]
    return Interval(weight * (adapted - zero_shot) / named, weight * low, weight * high)


def _paired(first: int, second: int, count: int, images: int) -> tuple[float, float]:
    """Bonett and Price's limits of (first - second) / count, of which no image counts for both."""
    worth = _worth(count, images)
    one, two = (first / count * worth + 1) / (worth + 2), (second / count * worth + 1) / (worth + 2)
    half = Z * sqrt(max(0.0, one + two - (one - two) ** 2) / (worth + 2))
    return max(-1.0, one - two - half), min(1.0, one - two + half)


def _worth(count: int, images: int) -> float:
    """How many images drawn with putting back tell as much as `count` drawn without from `images`."""
    if count >= images:
        return 1e12  # all of them: nothing is left to guess
    return count * (images - 1) / (images - count)
