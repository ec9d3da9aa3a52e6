"""The guard's medians: the same as NumPy's, wherever the search for them begins."""

import numpy as np
import pytest

from trimtab.guard.medians import median, renew_medians


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 127, 128])
@pytest.mark.parametrize("digits", [1, 15])  # with one digit many are equal
def test_medians_are_numpys(count, digits):
    random = np.random.default_rng(count)
    for before in (0.0, -9.0, 9.0, 0.1):
        window, medians = np.round(random.normal(size=(count, 4)), digits), np.full((2, 4), before)
        renew_medians(window, (0, 3), medians)
        assert np.array_equal(medians[0], np.median(window, axis=0))
        deviations = np.median(np.abs(window - medians[0]), axis=0)
        assert np.array_equal(medians[1], [deviations[0], before, before, deviations[3]])
        assert median(window[:, 1].copy()) == np.median(window[:, 1])
