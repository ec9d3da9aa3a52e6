"""A few kills of a server under load; `python -m tests.audit.serve_kills` does two hundred."""

import os

import pytest

from tests.audit.serve_kills import ServeKills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to be quick")


def test_nothing_is_lost_or_doubled_and_every_bit_is_the_same(tmp_path):
    audit = ServeKills(tmp_path, seed=0)
    audit.run(4)
    assert audit.bad == 0, audit.report()
    assert audit.counts["kills"] == 4
    assert audit.counts["images"] > 0
