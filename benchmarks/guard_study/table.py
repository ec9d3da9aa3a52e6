"""The tables of docs/poisoning.md, from what benchmarks.guard_study.attacks has written.

    python -m benchmarks.guard_study.table OUT [OUT ...]

Prints Markdown per method: a row per store, top-1 in percent as published / with a guard, and which cells miss the bar
(trimtab.study.attack.bar): 60 % of the clean gain where that is a point or more, and no more than 0.5 below zero-shot.
Of those it says which are beyond noise: short by more than two standard errors over orders and images. Where a method
is below the bar without an attack, too, its cells are counted apart: no guard against attacks can lift them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import Argument, run_study
from benchmarks.guard_study.attacks import written_in
from trimtab.study.attack.trial import CLEAN, Outcome, Trials

ERRORS = 2  # standard errors, from which on a shortfall is no noise


def read(folders: list[Path]) -> dict[str, list[Trials]]:
    """Method -> its trials, one per store."""
    found: dict[str, list[Trials]] = {}
    for path in sorted(path for folder in folders for path in written_in(folder)):
        data: dict[str, Any] = json.loads(path.read_text())
        trials = Trials(data["store"], data["zero_shot"], tuple(Outcome(**outcome) for outcome in data["outcomes"]))
        for method in dict.fromkeys(outcome.method for outcome in trials.outcomes):
            found.setdefault(method, []).append(trials)
    return found


def cell(trials: Trials, attack: str, method: str) -> Outcome:
    """A guarded stream under an attack."""
    return next(o for o in trials.outcomes if (o.method, o.attack, o.guarded) == (method, attack, True))


def show(method: str, stores: list[Trials]) -> None:
    attacks = list(dict.fromkeys(outcome.attack for outcome in stores[0].outcomes if outcome.method == method))
    print(f"\n## {method}\n\n| store | zero-shot | {' | '.join(attacks).replace(CLEAN, 'no attack')} |")
    print(f"|---|---|{'---|' * len(attacks)}")
    rows = []
    for trials in stores:
        pairs = [[trials.accuracy(method, attack, guarded) for guarded in (False, True)] for attack in attacks]
        rows.append([[trials.zero_shot] * 2, *pairs])
    for name, row in [*((t.store, row) for t, row in zip(stores, rows, strict=True)), ("**mean**", np.mean(rows, 0))]:
        cells = " | ".join(f"{bare:.1f} / {guarded:.1f}" for bare, guarded in row[1:])
        print(f"| {name} | {row[0][0]:.1f} | {cells} |")
    attacked = [cell(trials, attack, method) for trials in stores for attack in attacks if attack != CLEAN]
    missed = [outcome for outcome in attacked if outcome.short > 0]
    already = {trials.store for trials in stores if cell(trials, CLEAN, method).short > 0}
    anyhow = [outcome for outcome in missed if outcome.store in already]
    by_attack = [outcome for outcome in missed if outcome.store not in already]
    beyond = [outcome for outcome in by_attack if outcome.short > ERRORS * outcome.error]
    where = f" ({', '.join(dict.fromkeys(outcome.store for outcome in anyhow))})" if anyhow else ""
    print(
        f"\nOf {len(attacked)} cells {len(missed)} miss the bar, {len(anyhow)} of them without an attack, too{where}. "
        f"Of the other {len(by_attack)}, {len(beyond)} are beyond noise: {_told(beyond)}; "
        f"within it: {_told([outcome for outcome in by_attack if outcome not in beyond])}."
    )


def _told(outcomes: list[Outcome]) -> str:
    """Cells and how far below the bar they are."""
    return ", ".join(f"{o.store} {o.attack} ({o.short:.1f} ± {o.error:.1f})" for o in outcomes) or "none"


def main(folders: list[Path]) -> None:
    for name, trials in read(folders).items():
        show(name, trials)


if __name__ == "__main__":
    run_study(main, __doc__, Argument("OUT", Path, many="+"))
