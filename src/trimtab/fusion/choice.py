"""The parameter `fusion` of a method whose prediction has several parts: the word "auto", or one weight for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trimtab.engine.equations import Array
from trimtab.engine.state import Arrays
from trimtab.fusion.auto import AutoWeights
from trimtab.fusion.fixed import FixedWeights

FusionChoice = str | tuple[float, ...]


class Fusion(Protocol):
    """What a stream asks of a fusion."""

    def combine(self, parts: Mapping[str, Array]) -> Array:
        """(C,) probabilities of one image from those of its parts; nothing is written."""

    def observe(self, parts: Mapping[str, Array]) -> None:
        """Learn from the parts of an image that has just been combined."""

    def arrays(self) -> Arrays:
        """Everything learned, by name; the live arrays."""

    def report(self) -> dict[str, Any]:
        """How the parts are being weighed, for people."""


@dataclass(frozen=True)
class _AutoOrWeights:
    """The values that the parameter may take. How many weights there must be is known to the method alone."""

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        if value == "auto":
            return None
        numbers = isinstance(value, (tuple, list)) and all(
            isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in value
        )
        return None if numbers else f"must be {self}"

    def __str__(self) -> str:
        return "'auto' or one weight for each part"


def fusion_choice(default: FusionChoice = "auto") -> Any:
    """A field that says how the parts are weighed."""
    return field(default=default, metadata={"allowed": _AutoOrWeights()})


def new_fusion(choice: FusionChoice, parts: Sequence[str], classes: int) -> Fusion:
    """What the choice means for a prediction of these parts."""
    if isinstance(choice, str):
        return AutoWeights(parts, classes)
    return FixedWeights(parts, choice)
