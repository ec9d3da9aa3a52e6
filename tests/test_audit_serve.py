"""A hundred damaged and made-up requests; `python -m tests.audit.serve_fuzz` and `serve_schema` send thousands."""

from tests.audit.serve_fuzz import fuzz
from tests.audit.serve_schema import audit


def test_damaged_requests_are_answered():
    counts, faults = fuzz(100, seed=1)
    assert not faults, "\n".join(faults)
    assert counts.total() == 100
    assert counts["200"] > 10


def test_made_up_requests_get_what_the_description_promises():
    statuses, faults = audit(60, seed=1)
    assert not faults, "\n".join(faults)
    assert statuses.total() > 50
