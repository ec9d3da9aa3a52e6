"""The ways of fusing that the study compares. All but the oracles are causal and see no label."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.fusion import AutoWeights
from trimtab.fusion.sharpness import LOG_FACTOR

Array = NDArray[np.float32]
Parts = dict[str, Array]


class WithoutHabit(AutoWeights):
    """Habits stay."""

    def __init__(self, parts: Sequence[str], classes: int) -> None:
        super().__init__(parts, classes)
        self.habits[:] = 0.0


class WithoutTrust(AutoWeights):
    """Every part is always believed."""

    def _trusts(self) -> NDArray[np.float64]:
        return np.ones(len(self.parts) - 1)


class WithoutForce(AutoWeights):
    """Every part speaks as loudly as it comes."""

    def _forces(self) -> NDArray[np.float64]:
        self.spread[:] = 1.0
        return super()._forces()


class WithoutSharpness(AutoWeights):
    """A strong text speaks as any other."""

    def step(self, parts: Mapping[str, Array], sure: float | None = None) -> Array:
        fused = super().step(parts, sure)
        self.sharpness.figures[LOG_FACTOR] = 0.0
        return fused


class WithoutContext(AutoWeights):
    """The order of the images says nothing."""

    def __init__(self, parts: Sequence[str], classes: int) -> None:
        super().__init__(parts, classes, ordered=False)


class WholeText(AutoWeights):
    """The text counts as much as the other parts."""

    def __init__(self, parts: Sequence[str], classes: int) -> None:
        super().__init__(parts, classes)
        self.shares[0] = 1.0


class NoText(AutoWeights):
    """The text counts only inside the prototype part."""

    def __init__(self, parts: Sequence[str], classes: int) -> None:
        super().__init__(parts, classes)
        self.shares[0] = 1e-6


def _sum(parts: Parts) -> Array:
    total: Array = np.add.reduce(list(parts.values()))
    return total


def _product(parts: Parts) -> Array:
    return np.add.reduce([np.log(np.maximum(part, np.float32(1e-30))) for part in parts.values()])


def _replayed(kind: type[AutoWeights]) -> Callable[[Parts], Array]:
    def fuse(parts: Parts) -> Array:
        fused = np.empty_like(parts["text"])
        fusion = kind(tuple(parts), fused.shape[1])
        for position in range(len(fused)):
            image = {name: part[position] for name, part in parts.items()}
            fused[position] = fusion.step(image)
        return fused

    return fuse


def _part(name: str) -> Callable[[Parts], Array]:
    return lambda parts: parts[name]


# Name -> what makes (N, C) scores of the parts.
CANDIDATES: Final[dict[str, Callable[[Parts], Array]]] = {
    "text": _part("text"),
    "prototype": _part("prototype"),
    "retrieval": _part("retrieval"),
    "sum": _sum,
    "product": _product,
    "auto": _replayed(AutoWeights),
}
ABLATIONS: Final[dict[str, Callable[[Parts], Array]]] = {
    "auto, habits stay": _replayed(WithoutHabit),
    "auto, no trust": _replayed(WithoutTrust),
    "auto, no sharpness": _replayed(WithoutSharpness),
    "auto, no context": _replayed(WithoutContext),
    "auto, own force": _replayed(WithoutForce),
    "auto, whole text": _replayed(WholeText),
    "auto, no text": _replayed(NoText),
}
