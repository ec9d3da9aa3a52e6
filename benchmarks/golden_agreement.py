"""How closely each method repeats its authors' own program: `python -m benchmarks.golden_agreement`.

The streams were made by running the released programs with their encoder replaced by given features (tests/golden).
`--prompt FILES...` compares golden files of prompt tuning instead (tests/golden/prompt), step by step; it exits with
code 1 if an error is larger than its tolerance.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from trimtab import Task, make_method
from trimtab.engine.equations import softmax
from trimtab.methods import method_class

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"


def agreements() -> Iterator[tuple[str, str, float, float]]:
    """(stream, part, largest difference of a probability, share of equal classes)."""
    for stream in ("mcp_a", "mcp_b"):
        for promotion in (False, True):
            data, parts = _run("mcp", stream, prototype_term="affinity", promotion=promotion)
            for part, found in parts.items():
                released = data[part if promotion else f"{part}_nopromotion"]
                name = f"{part}, {'with' if promotion else 'without'} promotion"
                yield stream, name, *_compare(found, released)
    for stream in ("tda_single_view", "tda_many_views", "dpe_single_view", "dpe_many_views"):
        data, parts = _run(stream.split("_")[0], stream)
        yield stream, "adapted", *_compare(parts["adapted"], softmax(data["logits"]))
    data, parts = _run("boostadapter", "boostadapter", **_boostadapter_parameters())
    yield "boostadapter", "adapted", *_compare(parts["adapted"], softmax(data["logits"]))
    data, parts = _run("dmn", "dmn")
    yield "dmn", "dynamic", *_compare(parts["dynamic"], data["logits"])


def _run(method: str, stream: str, **changes: Any) -> tuple[Any, dict[str, Any]]:
    data = np.load(GOLDEN / f"{stream}.npz")
    text = data["text_prototypes"]
    task = Task([str(c) for c in range(len(text))], text, float(data["logit_scale"]))
    parameters = {name: data[name].item() for name in method_class(method).__dataclass_fields__ if name in data}
    return data, make_method(method, **{**parameters, **changes}).start(task).run(data["views"]).parts


def _boostadapter_parameters() -> dict[str, Any]:
    released = json.loads(str(np.load(GOLDEN / "boostadapter.npz")["cfg"]))
    positive, negative = released["positive"], released["negative"]
    return {
        "positive_slots": positive["shot_capacity"],
        "positive_alpha": positive["alpha"],
        "positive_beta": positive["beta"],
        "negative_slots": negative["shot_capacity"],
        "boost_slots": released["delta"],
    }


def _compare(found: Any, released: Any) -> tuple[float, float]:
    same = (found.argmax(axis=1) == released.argmax(axis=1)).mean()
    return float(np.abs(found - released).max()), float(same)


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title="Agreement with the authors' programs")
    for column in ("stream", "part", "largest difference", "same class"):
        table.add_column(column, justify="left" if column in ("stream", "part") else "right")
    for stream, part, difference, same in agreements():
        table.add_row(stream, part, f"{difference:.1e}", f"{same:.1%}")
    console.print(table)


def show_prompt(console: Console, files: Sequence[Path]) -> bool:
    """Print the worst error of every quantity of golden files of prompt tuning; False if one is too large."""
    from benchmarks.prompt_golden import agreement_of  # needs torch

    table = Table(title="Prompt tuning: worst error against the authors' programs")
    for column in ("file", "quantity", "worst error", "tolerance", ""):
        table.add_column(column, justify="left" if column in ("file", "quantity", "") else "right")
    well = True
    for file in files:
        for place, found in enumerate(agreement_of(file)):
            name = file.stem if place == 0 else ""
            verdict = "" if found.holds else "TOO LARGE"
            table.add_row(name, found.quantity, f"{found.error:.1e}", f"{found.tolerance:.0e}", verdict)
            well &= found.holds
        table.add_section()
    console.print(table)
    return well


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", nargs="+", type=Path, metavar="FILES", help="golden files of prompt tuning")
    given = parser.parse_args()
    if given.prompt:
        sys.exit(0 if show_prompt(Console(), given.prompt) else 1)
    show(Console())
