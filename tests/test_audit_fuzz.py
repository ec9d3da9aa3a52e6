"""A few hundred damaged files of every kind; `python -m tests.audit.fuzz` damages thousands."""

import pytest

from tests.audit.fuzz import fuzz
from tests.audit.fuzz_targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_files_are_refused_or_read_as_they_were(target):
    outcome = fuzz(40, seed=1, targets=(target,))[target.name]
    assert not outcome.faults, "\n".join(outcome.faults)
    assert outcome.counts.total() == 40
