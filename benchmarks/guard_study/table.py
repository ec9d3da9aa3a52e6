"""The tables of docs/poisoning.md, from what benchmarks.guard_study.attacks has written.

    python -m benchmarks.guard_study.table OUT [OUT ...]

Prints Markdown per method: a row per store, top-1 in percent as published / with a guard, and which cells miss the bar:
60 % of the clean gain where that is a point or more, and no more than 0.5 below zero-shot. Where a method is below the
bar without an attack, too, its cells are counted apart: no guard against attacks can lift them.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.study.attack.trial import CLEAN, Outcome, Trials

KEPT, BELOW = 0.6, 0.5


def read(folders: list[Path]) -> dict[str, list[Trials]]:
    """Method -> its trials, one per store."""
    found: dict[str, list[Trials]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        data: dict[str, Any] = json.loads(path.read_text())
        trials = Trials(data["store"], data["zero_shot"], tuple(Outcome(**outcome) for outcome in data["outcomes"]))
        for method in dict.fromkeys(outcome.method for outcome in trials.outcomes):
            found.setdefault(method, []).append(trials)
    return found


def bar(trials: Trials, method: str) -> float:
    """What a guarded stream must reach under an attack."""
    gain = trials.accuracy(method, CLEAN, guarded=False) - trials.zero_shot
    return trials.zero_shot + max(-BELOW, KEPT * gain if gain >= 1 else -BELOW)


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
    attacked = [(trials, attack) for trials in stores for attack in attacks if attack != CLEAN]
    missed = [cell for cell in attacked if reached(*cell, method) < bar(cell[0], method)]
    anyhow = [cell for cell in missed if reached(cell[0], CLEAN, method) < bar(cell[0], method)]
    by_attack = [
        f"{trials.store} {attack} ({reached(trials, attack, method):.1f} for {bar(trials, method):.1f})"
        for trials, attack in missed
        if (trials, attack) not in anyhow
    ]
    print(
        f"\nOf {len(attacked)} cells {len(missed)} miss the bar, {len(anyhow)} of them without an attack, too", end=""
    )
    print(f" ({', '.join(dict.fromkeys(trials.store for trials, _ in anyhow))})" if anyhow else "", end="")
    print(f"; the others: {', '.join(by_attack) or 'none'}.")


def reached(trials: Trials, attack: str, method: str) -> float:
    """The top-1 of a guarded stream under an attack."""
    return trials.accuracy(method, attack, guarded=True)


if __name__ == "__main__":
    for name, trials in read([Path(folder) for folder in sys.argv[1:]]).items():
        show(name, trials)
