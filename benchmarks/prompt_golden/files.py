"""From a golden file to its errors: which form it has, and what each error may be."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

Golden = Mapping[str, Any]

# What a file's name begins with -> the function that compares files of this form with trimtab.
FORMS: Final = {
    "tpt": "benchmarks.prompt_golden.episodic:tpt",
    "ctpt": "benchmarks.prompt_golden.episodic:ctpt",
    "rtpt": "benchmarks.prompt_golden.episodic:rtpt",
    "difftpt": "benchmarks.prompt_golden.episodic:difftpt",
    "coop": "benchmarks.prompt_golden.coop:coop",
    "maple": "benchmarks.golden_maple:maple",
    "promptalign": "benchmarks.golden_maple:promptalign",
}


@dataclass(frozen=True)
class Agreement:
    """How far a quantity is from the authors' program, and how far it may be."""

    quantity: str  # "features", "logits", "losses", "gradients", "parameters", "answers", ...
    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether it is near enough; NaN is not."""
        return bool(self.error <= self.tolerance)


@dataclass(frozen=True)
class Tolerances:
    """What is fair in float32 (the golden files' README): several steps, or a ResNet, let errors grow."""

    several_steps: bool
    resnet: bool
    features: float = 5e-6
    losses: float = 1e-4

    @property
    def logits(self) -> float:
        """Before any step."""
        return 1e-3 if self.resnet else 1e-4

    @property
    def gradients(self) -> float:
        """Relative to the largest coordinate of the same gradient."""
        return 2e-3 if self.several_steps else 1e-4

    @property
    def parameters(self) -> float:
        """After each step."""
        return 1e-5 if self.several_steps else 1e-6

    @property
    def answers(self) -> float:
        """The final logits."""
        return 5e-3 if self.several_steps else 1e-3


def agreement_of(file: Path) -> list[Agreement]:
    """The worst error of every quantity of one golden file."""
    form = file.name.split("_")[0].removesuffix(".npz")
    if form not in FORMS:
        raise ValueError(f"{file} has no form that is known here; the forms are {', '.join(FORMS)}")
    module, function = FORMS[form].split(":")
    compare: Callable[[Golden], Iterator[Agreement]] = getattr(importlib.import_module(module), function)
    with np.load(file) as opened:
        golden = {name: opened[name] for name in opened.files}
    return _worst(compare(golden))


def _worst(found: Iterator[Agreement]) -> list[Agreement]:
    worst: dict[str, Agreement] = {}
    for agreement in found:
        known = worst.setdefault(agreement.quantity, agreement)
        if not agreement.error <= known.error:  # also NaN
            worst[agreement.quantity] = agreement
    return list(worst.values())


def largest(found: Any, expected: Any) -> float:
    """The largest absolute difference; NaN if anything is NaN, infinity if the shapes differ."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")


def relative(found: Any, expected: Any) -> float:
    """The same, relative to the largest value expected."""
    return largest(found, expected) / max(float(np.abs(expected).max()), 1e-30)
