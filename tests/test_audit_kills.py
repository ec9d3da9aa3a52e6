"""A few kills at random moments; `python -m tests.audit.kills` does a thousand."""

import os
import signal

import pytest

from tests.audit.kill_processes import LOG, start, warm_up
from tests.audit.kill_scenarios import Bench, Classify, Encode, Learn
from tests.audit.kills import KillRunner
from trimtab.cli.interruption import CONTINUES

SIGNS = {"encode": "store/unfinished.json", "learn": "context.safetensors.features/*", "bench": "results/plan.json"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to be quick")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def test_nothing_is_lost_or_doubled_and_every_resume_works(tmp_path):
    scenarios = [Classify(), Encode(), Learn()]
    for scenario in scenarios:  # cold starts, and the other commands, take longer: `make audit`
        scenario.cold = 0.0
    runner = KillRunner(tmp_path, scenarios, seed=0)
    runner.run(24)
    assert runner.bad == 0, runner.report()
    assert runner.kills >= 24


def test_an_interrupt_in_the_first_moments_is_heard(tmp_path):
    warm_up()
    for _ in range(30):
        run = start(["methods"], tmp_path, 0.0, cold=False)
        run.send(signal.SIGINT)
        assert run.ended_within(60)
        assert run.code == 130


@pytest.mark.parametrize("scenario", [Encode(), Learn(), Bench()], ids=lambda scenario: scenario.name)
def test_a_service_managers_stop_is_as_good_as_ctrl_c(scenario, tmp_path):
    warm_up()
    (tmp_path / "inputs").mkdir()
    scenario.prepare(tmp_path / "inputs")
    run = start(scenario.arguments(), tmp_path, 0.0, cold=False)
    while not list(tmp_path.glob(SIGNS[scenario.name])):
        assert not run.ended_within(0.001)
    run.send(signal.SIGTERM)
    assert run.ended_within(60)
    assert run.code == 130
    assert (tmp_path / LOG).read_text() == f"{CONTINUES}\n"
