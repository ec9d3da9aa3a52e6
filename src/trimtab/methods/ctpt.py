"""C-TPT: TPT whose texts are kept apart, so that its confidence can be believed.

Paper: Yoon, Yoon, Tee, Hasegawa-Johnson, Li, Yoo, "C-TPT: Calibrated Test-Time Prompt Tuning for Vision-Language Models
via Text Feature Dispersion", ICLR 2024.

    L = L_TPT - lambda D,   D = mean over c of |t_c - t|,  t = mean of the t_c (not normalized again)

Texts that lie far from their mean go with low calibration error. `two_step` is the released program's other mode: one
AdamW step on L_TPT, then, with the same optimizer and new text, one on -lambda D alone.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.arrays import Array, Floats
from trimtab.engine.parameters import number, switch
from trimtab.methods.facts import PAPER_SETS, MethodInfo, Released
from trimtab.methods.prompt_tuning import PromptTuner, Stage, ValueAndSlopes


@dataclass(frozen=True, kw_only=True)
class CTPT(PromptTuner):
    """Calibrated test-time prompt tuning. Nothing is kept between images."""

    name: ClassVar[str] = "ctpt"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="C-TPT",
        paper="Calibrated Test-Time Prompt Tuning",
        year=2024,
        venue="ICLR",
        keeps="nothing",
        gradients=True,
        views="several",
        traits=frozenset({"NoExtraData"}),
        look=("#8C8C8C", "s", "--"),
    )
    released_values: ClassVar[Released] = {
        dataset: {"dispersion_weight": 20.0 if dataset.startswith("imagenet") else 50.0} for dataset in PAPER_SETS
    }

    dispersion_weight: float = number(
        50.0,
        least=0,
        symbol="lambda",
        about="How much the texts are pushed apart; released: 20 on the ImageNet family, 50 elsewhere. 0 is TPT.",
    )
    two_step: bool = switch(
        False, about="Whether the texts are pushed apart in a step of their own, after the views' step."
    )

    def stages(self) -> tuple[Stage, ...]:
        """One step on both losses, or one on each."""
        return (self.loss_of_views, self.loss_of_text) if self.two_step else (self.loss,)

    def loss_of_text(self, kept: Array, text: Array, scale: float) -> tuple[float, Array]:  # noqa: ARG002
        """The text's loss alone."""
        loss, slopes = self.text_loss(text)
        return loss, np.asarray(slopes, np.float32)

    def text_loss(self, text: Array) -> ValueAndSlopes:
        """Minus lambda times the dispersion."""
        value, slopes = dispersion(text)
        return -self.dispersion_weight * value, -self.dispersion_weight * slopes


def dispersion(text: Floats) -> ValueAndSlopes:
    """D, the mean distance of the texts (C, d) from their mean, and its slopes (u - mean u) / C; u are directions."""
    apart = text.astype(np.float64) - text.mean(axis=0, dtype=np.float64)
    distances = np.linalg.norm(apart, axis=1, keepdims=True)
    directions = np.divide(apart, distances, out=np.zeros_like(apart), where=distances > 0)
    return float(distances.mean()), (directions - directions.mean(axis=0)) / len(text)
