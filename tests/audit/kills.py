"""Kill the real command at random moments, run it again until it is done, and compare with a run that nobody stopped.

    python -m tests.audit.kills --count 1000 --seed 0

Prints its counts; the exit code is 1 if anything was lost or doubled, a resume was refused, or something hung.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.audit.kill_processes import COLD_LOG, LOG, Run, start, warm_up
from tests.audit.kill_scenarios import SCENARIOS, AuditError, Scenario
from trimtab.errors import TrimtabError

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
KILLS_PER_CASE = 4  # at most; then it may finish
SECONDS_TO_END = 120  # more is a hang, even on a busy machine
BAD = ("lost", "doubled", "litter", "refused resumes", "hangs", "tracebacks")


class KillRunner:
    """Counts what happens to `count` kills of the given scenarios."""

    def __init__(self, place: Path, scenarios: Sequence[Scenario], seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._random = random.Random(seed)
        self._place, self._scenarios = place, scenarios
        self._inputs = place / "inputs"
        self._inputs.mkdir()
        self._seconds: dict[tuple[str, bool], float] = {}
        warm_up()
        for scenario in scenarios:
            scenario.prepare(self._inputs)
            self._run_unstopped(scenario)

    def run(self, count: int, minutes: float = float("inf")) -> None:
        """Cases until `count` kills have hit, or until the time is over."""
        shares = [scenario.share for scenario in self._scenarios]
        end = time.monotonic() + 60 * minutes
        while self.kills < count and time.monotonic() < end:
            self._case(self._random.choices(self._scenarios, shares)[0])

    @property
    def kills(self) -> int:
        return sum(self.counts[number.name] for number in SIGNALS)

    @property
    def bad(self) -> int:
        return sum(self.counts[kind] for kind in BAD)

    def report(self) -> str:
        """The counts, and what went wrong."""
        killed = ", ".join(f"{self.counts[number.name]} {number.name}" for number in SIGNALS)
        verbs = ", ".join(f"{self.counts[scenario.name]} {scenario.name}" for scenario in self._scenarios)
        bad = ", ".join(f"{self.counts[kind]} {kind}" for kind in BAD)
        lines = [
            f"{self.kills} kills ({killed}; of them {self.counts['cold starts']} within a cold start) in",
            f"{self.counts['cases']} cases ({verbs}): {bad}",
        ]
        return "\n".join([*lines, *self.troubles])

    def _run_unstopped(self, scenario: Scenario) -> None:
        """What a case is compared with; and how long it takes, warm and cold."""
        whole = self._whole(scenario)
        for cold in (True, False):  # the first may compile and fill caches
            if (not scenario.cold) if cold else scenario.cold == 1:
                continue
            shutil.rmtree(whole, ignore_errors=True)
            whole.mkdir()
            begun = time.monotonic()
            run = start(scenario.arguments(), whole, 0.01, cold=cold)
            if not run.ended_within(SECONDS_TO_END) or run.code != 0:
                raise RuntimeError(f"{scenario.name} does not work: {run.code}\n{_said(whole, LOG, COLD_LOG)}")
            self._seconds[scenario.name, cold] = time.monotonic() - begun

    def _case(self, scenario: Scenario) -> None:
        number = self.counts["cases"]
        folder = self._place / f"case-{number}"
        folder.mkdir()
        story: list[str] = []
        try:
            self._kill_and_resume(scenario, folder, story)
            _check_finished(scenario, folder, self._whole(scenario))
        except AuditError as trouble:
            self.counts[trouble.kind] += 1
            self.troubles.append(f"case {number}, {scenario.name}: {' '.join(story)}: {trouble.kind}: {trouble}")
        self.counts["cases"] += 1
        self.counts[scenario.name] += 1
        shutil.rmtree(folder, ignore_errors=True)

    def _kill_and_resume(self, scenario: Scenario, folder: Path, story: list[str]) -> None:
        killed_before = False
        for _ in range(self._random.randint(1, KILLS_PER_CASE)):
            if scenario.is_done(folder):
                return
            chosen, cold = self._random.choice(SIGNALS), self._random.random() < scenario.cold
            moment = self._random.uniform(0, 1.05 * self._seconds[scenario.name, cold])
            run = start(scenario.arguments(), folder, self._random.choice((0.0, 0.01, 30.0)), cold=cold)
            if run.ended_within(moment):
                _expect(run, folder, 0)
                return
            run.send(chosen)
            self.counts[chosen.name] += 1
            self.counts["cold starts"] += cold
            story.append(f"{chosen.name}@{moment:.3f}{'c' if cold else ''}")
            self._wait(run)
            story[-1] += f"->{run.code}"
            if run.code not in (0, 130):
                killed_before = True
            if chosen != signal.SIGKILL:
                if run.code not in (0, 130, -chosen) and not cold:
                    raise AuditError("tracebacks", _said(folder, LOG))
                if run.code in (0, 130):
                    scenario.check_stopped(folder, killed_before)
        if not scenario.is_done(folder):
            run = start(scenario.arguments(), folder, 30.0, cold=scenario.cold == 1)
            self._wait(run)
            _expect(run, folder, 0)

    def _wait(self, run: Run) -> None:
        if not run.ended_within(SECONDS_TO_END):
            with suppress(ProcessLookupError):
                run.send(signal.SIGKILL)
            run.ended_within(SECONDS_TO_END)
            raise AuditError("hangs", "it did not end")

    def _whole(self, scenario: Scenario) -> Path:
        return self._place / f"whole {scenario.name}"


def _check_finished(scenario: Scenario, folder: Path, whole: Path) -> None:
    try:
        scenario.check_finished(folder, whole)
    except (OSError, TrimtabError) as error:  # a result that is missing or damaged
        raise AuditError("lost", str(error)) from error


def _expect(run: Run, folder: Path, code: int) -> None:
    if run.code != code:
        raise AuditError("refused resumes", f"exit code {run.code}\n{_said(folder, LOG, COLD_LOG)}")


def _said(folder: Path, *logs: str) -> str:
    return "".join((folder / log).read_text() for log in logs if (folder / log).exists())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="kills")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop earlier, after this time")
    parser.add_argument("--seed", type=int, default=0)
    names = [kind.name for kind in SCENARIOS]
    parser.add_argument("--only", choices=names, action="append", help="kill only this; may be repeated")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job and its children ignore it
    chosen = [kind() for kind in SCENARIOS if options.only is None or kind.name in options.only]
    with tempfile.TemporaryDirectory(prefix="trimtab-kills-") as place:
        os.environ["TRIMTAB_CACHE"] = str(Path(place) / "cache")
        runner = KillRunner(Path(place), chosen, options.seed)
        runner.run(options.count, options.minutes)
    print(runner.report())
    return 1 if runner.bad else 0


if __name__ == "__main__":
    sys.exit(main())
