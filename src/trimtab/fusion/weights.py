"""How a prediction's parts become one: given weights, the parameter that chooses, and the oracle.

* fixed: the paper's weighted sum of probabilities, with weights that somebody chose (`FixedWeights`);
* auto: weights found from the unlabeled stream itself (`AutoWeights`, in auto.py); "auto-orderless" takes no notice of
  the order in which images come;
* oracle: weights searched on the TEST LABELS, as behind the papers' headline figures (`oracle_weights`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.parameters import parameter
from trimtab.engine.wide import WIDE
from trimtab.errors import TrimtabError
from trimtab.fusion.auto import AutoWeights

FusionChoice = str | tuple[float, ...]
FOUND = ("auto", "auto-orderless")  # choices of weights that the stream itself shows

# The authors' search grid for every weight but the first, which is fixed at 1.
ORACLE_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


class Fusion(Protocol):
    """What a stream asks of a fusion."""

    def combine(self, parts: Mapping[str, Array], sure: float | None = None, *, comes_next: bool = False) -> Array:
        """(C,) probabilities of one image from those of its parts; nothing is written.

        `comes_next`: it is the stream's next image, so what was just there may say something about it; `sure` as in
        `step`.
        """

    def cut(self) -> None:
        """What comes next has nothing to do with what came before."""

    def step(self, parts: Mapping[str, Array], sure: float | None = None) -> Array:
        """The same, and learn from the image; `sure` is how sure answers should be on average, where that is known."""

    def walk(
        self, parts: Mapping[str, Array], sure: Doubles | None = None, learned: NDArray[np.bool_] | None = None
    ) -> Array:
        """(B, C): `step` for the images of a block, one after the other; of those not `learned` from, the answer.

        Without `learned` (B,), all are learned from.
        """

    def arrays(self) -> Arrays:
        """Everything learned, by name; the live arrays."""

    def report(self) -> dict[str, Any]:
        """How the parts are being weighed, for people."""


class FixedWeights:
    """The same weights for every image: probabilities are summed, then made to sum to one."""

    def __init__(self, parts: Sequence[str], weights: Sequence[float]) -> None:
        if len(weights) != len(parts):
            raise TrimtabError(
                f"fusion has {len(weights)} weights but the prediction has {len(parts)} parts "
                f"({', '.join(parts)}); give one weight for each."
            )
        if not all(np.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise TrimtabError(f"fusion weights must be numbers of at least 0, not all 0; got {tuple(weights)}.")
        self.parts = tuple(parts)
        self.weights = np.asarray(weights, np.float32) / np.float32(sum(weights))

    def cut(self) -> None:
        """Nothing is remembered."""

    def combine(
        self,
        parts: Mapping[str, Array],
        sure: float | None = None,  # noqa: ARG002
        *,
        comes_next: bool = False,  # noqa: ARG002
    ) -> Array:
        """(C,) or (N, C) probabilities of one image or of a stream."""
        total = parts[self.parts[0]] * self.weights[0]
        for name, weight in zip(self.parts[1:], self.weights[1:], strict=True):
            total += parts[name] * weight  # Eq. 5
        return total

    def step(self, parts: Mapping[str, Array], sure: float | None = None) -> Array:  # noqa: ARG002
        """As `combine`: nothing is learned from what passes by."""
        return self.combine(parts)

    def walk(
        self,
        parts: Mapping[str, Array],
        sure: Doubles | None = None,  # noqa: ARG002
        learned: NDArray[np.bool_] | None = None,  # noqa: ARG002
    ) -> Array:
        """As `combine`, for a block."""
        return self.combine(parts)

    def arrays(self) -> Arrays:
        """Nothing is kept."""
        return {}

    def report(self) -> dict[str, float]:
        """The share of each part."""
        return {name: float(weight) for name, weight in zip(self.parts, self.weights, strict=True)}


@dataclass(frozen=True)
class _AutoOrWeights:
    """The values that the parameter `fusion` may take; `new_fusion` knows whether they fit a method's parts."""

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        if isinstance(value, str) and value in FOUND:
            return None
        numbers = isinstance(value, (tuple, list)) and all(
            isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in value
        )
        return None if numbers else f"must be {self}"

    def __str__(self) -> str:
        return "'auto', 'auto-orderless' or one weight for each part"


def fusion_choice(default: FusionChoice, *, about: str, symbol: str = "") -> Any:
    """A field that says how the parts are weighed: the word "auto", or one weight for each."""
    return parameter(default, _AutoOrWeights(), about=about, symbol=symbol)


def new_fusion(choice: FusionChoice, parts: Sequence[str], classes: int, weighed: Sequence[str] = ()) -> Fusion:
    """What the choice means for a prediction of these parts; one that does not fit them is refused.

    The parts named in `weighed` have their weight from the method already; only given weights change it.
    """
    if isinstance(choice, str):
        return AutoWeights(parts, classes, weighed, ordered=choice == "auto" and classes < WIDE)
    return FixedWeights(parts, choice)


@dataclass(frozen=True)
class OracleWeights:
    """The best weights for labels that no real stream has, and the accuracy they give."""

    weights: tuple[float, ...]
    accuracy: float


def oracle_weights(parts: Mapping[str, Array], labels: NDArray[np.integer]) -> OracleWeights:
    """Search the weights on the labels: the first part has weight 1, the others run over the 13-value grid.

    NEEDS LABELS. The first maximum wins, as in the released programs.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise TrimtabError(f"parts must be a dictionary of probabilities by name, not {arguments.shown(parts)}.")
    arrays = [np.asarray(arguments.numbers(f"parts[{name!r}]", array), np.float32) for name, array in parts.items()]
    if arrays[0].ndim != 2 or any(array.shape != arrays[0].shape for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise TrimtabError(f"parts must all have the same shape (images, classes), not {shapes}.")
    labels = arguments.class_indices("labels", labels)
    if len(labels) != len(arrays[0]):
        raise TrimtabError(f"There are {len(labels)} labels for {len(arrays[0])} predictions; give one label each.")
    best = OracleWeights((), -1.0)
    for others in product(ORACLE_GRID, repeat=len(arrays) - 1):
        fused = arrays[0].copy()
        for weight, array in zip(others, arrays[1:], strict=True):
            fused += np.float32(weight) * array
        accuracy = float((fused.argmax(axis=1) == labels).mean())
        if accuracy > best.accuracy:
            best = OracleWeights((1.0, *others), accuracy)
    return best
