"""R-TPT: prompt tuning that an attack on the image does not mislead so easily.

Paper: Sheng, Liang, Wang, He, "R-TPT: Improving Adversarial Robustness of Vision-Language Models through Test-Time
Prompt Tuning", CVPR 2025.

    L = mean over the confident views of H(p_n)              each view for itself, not their mean prediction
    r_n = mean of the 20 largest cosines of view n with the other views' untuned features
    answer = sum over all views of softmax(r / 0.01)_n z_n   under the tuned text

The released program removes a view's cosine with itself by "sim >= 1", which float32 misses for a third of the views;
here the diagonal is left out by its place. With 20 views or fewer, all other views are a view's neighbors (the program
needs more than 20).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.equations import entropy, softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import Range, number, parameter
from trimtab.methods.facts import MethodInfo
from trimtab.methods.prompt_tuning import PromptTuner, ValueAndSlopes


@dataclass(frozen=True, kw_only=True)
class RTPT(PromptTuner):
    """Robust test-time prompt tuning: all views answer, those that resemble the others loudest. Nothing is kept."""

    name: ClassVar[str] = "rtpt"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="R-TPT",
        paper="Robust Test-Time Prompt Tuning",
        year=2025,
        venue="CVPR",
        keeps="nothing",
        gradients=True,
        views="several",
        traits=frozenset({"NoExtraData"}),
        look=("#8C8C8C", "^", "-."),
    )

    neighbors: int = parameter(
        20,
        Range(1, np.inf, whole=True),
        symbol="K",
        about="How many of the most similar other views a view's reliability is the mean of; all of them if fewer.",
    )
    temperature: float = number(
        0.01,
        least=1e-6,
        symbol="tau",
        about="How sharply reliability decides whose answer counts; lower listens to fewer views.",
    )

    def view_loss(self, logits: Array) -> ValueAndSlopes:
        """The mean of the views' own entropies; the slope of H is -p (log p + H)."""
        precise: Any = logits.astype(np.float64)
        probabilities = softmax(precise)
        entropies = entropy(probabilities)
        logarithms = np.log(probabilities, where=probabilities > 0, out=np.zeros_like(probabilities))
        slopes = -probabilities * (logarithms + entropies[:, None]) / len(logits)
        return float(entropies.mean()), slopes.astype(np.float32)

    def answer(self, views: Array, logits: Array) -> Array:
        """(C,): all views' logits, weighed by their reliability."""
        weights = softmax(reliability(views @ views.T, self.neighbors) / np.float32(self.temperature))
        return np.asarray(weights @ logits, np.float32)

    def operations(self, size: Size) -> float | None:
        """Prompt tuning, every view against every view, and every view against the tuned text."""
        tuning = super().operations(size)
        return None if tuning is None else tuning + size.products(size.views, size.views + size.classes)


def reliability(cosines: Array, neighbors: int) -> Array:
    """(V,): the mean of each view's largest cosines (V, V) with the other views; 1 for a view that is alone."""
    views = len(cosines)
    if views == 1:
        return np.ones(1, np.float32)
    others = cosines[~np.eye(views, dtype=bool)].reshape(views, views - 1)
    count = min(neighbors, views - 1)
    nearest = np.partition(others, views - 1 - count, axis=1)[:, views - 1 - count :]
    return np.asarray(nearest.mean(axis=1), np.float32)
