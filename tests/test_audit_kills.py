"""A few kills at random moments; `python -m tests.audit.kills` does a thousand."""

import os

import pytest

from tests.audit.kill_scenarios import Classify
from tests.audit.kills import KillRunner

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to be quick")


def test_nothing_is_lost_or_doubled_and_every_resume_works(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    scenario = Classify()  # the others, and cold starts, take longer: `make audit`
    scenario.cold = 0.0
    runner = KillRunner(tmp_path, [scenario], seed=0)
    runner.run(20)
    assert runner.bad == 0, runner.report()
    assert runner.kills >= 20
