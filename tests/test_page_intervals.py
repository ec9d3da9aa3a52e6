"""The intervals of "check 50" cover what they should, counted over many draws."""

import numpy as np
import pytest

from trimtab.serve.page.intervals import Stratum, difference_of, share_of, wilson


def test_wilson_is_the_published_example():
    # Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263, and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


def test_one_stratum_without_end_is_wilson():
    found = share_of([Stratum(10**9, 40, 10)])
    assert (found.low, found.high) == pytest.approx(wilson(40, 50), abs=1e-6)


def test_everything_labeled_leaves_nothing_to_guess():
    found = share_of([Stratum(30, 20, 10), Stratum(10, 9, 1)])
    assert (found.middle, found.low, found.high) == pytest.approx((29 / 40,) * 3, abs=1e-5)
    gain = difference_of(10, 40, 6, 2, 2, 0)
    assert (gain.middle, gain.low, gain.high) == pytest.approx((0.1,) * 3, abs=1e-5)


def test_images_that_nobody_can_name_widen_both_ways():
    known, with_unnamed = share_of([Stratum(1000, 30, 10)]), share_of([Stratum(1000, 30, 10, unnamed=10)])
    assert with_unnamed.middle == known.middle
    assert with_unnamed.low < known.low
    assert with_unnamed.high > known.high
    gain, unsure = difference_of(200, 1000, 12, 4, 4, 0), difference_of(200, 1000, 12, 4, 4, 5)
    assert unsure.low < gain.low
    assert unsure.high > gain.high


def test_nothing_is_said_too_early():
    assert share_of([Stratum(100, 0, 0), Stratum(50, 3, 1)]) is None
    assert share_of([]) is None
    assert difference_of(50, 150, 0, 0, 0, 2) is None
    assert difference_of(0, 150, 0, 0, 0, 0).high == 0


@pytest.mark.parametrize(
    ("others", "flips", "others_right", "adapted", "zero_shot"),
    [(1600, 400, 0.75, 0.5, 0.2), (1950, 50, 0.95, 0.6, 0.3), (400, 100, 0.5, 0.3, 0.4), (9000, 1000, 0.99, 0.9, 0.05)],
)
def test_coverage(others, flips, others_right, adapted, zero_shot):
    """25 + 25 images, drawn without putting back 4,000 times: 95 % of the intervals hold the frame's own figures."""
    random, draws, n = np.random.default_rng(7), 4000, 25
    right = round(others * others_right)
    ours, theirs = round(flips * adapted), round(flips * zero_shot)
    true_share, true_gain = (right + ours) / (others + flips), (ours - theirs) / (others + flips)
    agreed = random.hypergeometric(right, others - right, n, draws)
    among = random.multivariate_hypergeometric([ours, theirs, flips - ours - theirs], n, draws)
    covered = gained = 0
    for a, (b, c, d) in zip(agreed.tolist(), among.tolist(), strict=True):
        share = share_of([Stratum(others, a, n - a), Stratum(flips, b, n - b)])
        gain = difference_of(flips, others + flips, b, c, d, 0)
        covered += share.low <= true_share <= share.high
        gained += gain.low <= true_gain <= gain.high
    # Counts are whole, so coverage swings about its level; with 25 images and a share of 0.99 it is 92.8 %.
    assert covered / draws > 0.925
    assert gained / draws > 0.925
