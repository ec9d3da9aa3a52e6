"""The outcomes of attacks on a store as a table: attacks below each other, each method without and with its guard."""

from trimtab.study.attack.trial import CLEAN, Trials
from trimtab.study.tables.table import Cell, Row, Table


def attack_table(trials: Trials) -> Table:
    """Top-1 of the clean images, in percent."""
    methods = list(dict.fromkeys(outcome.method for outcome in trials.outcomes))
    attacks = list(dict.fromkeys(outcome.attack for outcome in trials.outcomes))
    rows = []
    for attack in attacks:
        cells = []
        for method in methods:
            bare, guarded = (trials.accuracy(method, attack, guarded=on) for on in (False, True))
            below = max(bare, guarded) < trials.zero_shot - 0.5
            cells.append(Cell(f"{bare:.1f} / {guarded:.1f}", best=guarded > bare + 0.5, failed=below))
        rows.append(Row("no attack" if attack == CLEAN else attack, cells))
    notes = [f"Zero-shot: {trials.zero_shot:.1f}. Each cell: as published / with trimtab's guard, of the clean images."]
    return Table(f"{trials.store}: top-1 under attack", methods, rows, notes, first="Attack")
