"""The tables of docs/poisoning.md, from what benchmarks.guard_study.attacks has written.

    python -m benchmarks.guard_study.table OUT [OUT ...]

Prints Markdown per method: a row per store, top-1 in percent as published / with a guard, and which cells miss the bar:
60 % of the clean gain where that is a point or more, and no more than 0.5 below zero-shot.
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
    missed = [
        f"{trials.store} {attack} ({trials.accuracy(method, attack, guarded=True):.1f} for {bar(trials, method):.1f})"
        for trials in stores
        for attack in attacks
        if attack != CLEAN and trials.accuracy(method, attack, guarded=True) < bar(trials, method)
    ]
    print(f"\nOf {len(stores) * (len(attacks) - 1)} cells {len(missed)} miss the bar: {', '.join(missed) or 'none'}.")


if __name__ == "__main__":
    for name, trials in read([Path(folder) for folder in sys.argv[1:]]).items():
        show(name, trials)
