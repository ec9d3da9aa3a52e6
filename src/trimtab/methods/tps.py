"""TPS: a shift of each text prototype, learned for one image and forgotten.

Paper: Sui, Wang, Yeung-Levy, "Just Shift It: Test-Time Prototype Shifting for Zero-Shot Generalization with
Vision-Language Models", WACV 2025.

    t'_c = normalize(t_c + r_c),  r = one AdamW step from 0 on H(mean of the confident views' predictions)

The prediction is the plain view's. Only features are needed: the encoders are never touched. The released program
writes the shift into its normalized buffer in place; the numbers are the same.

AdamW's first step is as long in a coordinate of gradient 1e-6 as in one of 1. Where several views are confident their
terms can cancel, and what is left is rounding: `run` and `step`, whose products round otherwise, then take steps of
other lengths or signs in that coordinate, and probabilities differ by some 1e-4.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.engine.block import Image
from trimtab.engine.equations import softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import number
from trimtab.engine.residuals import entropy_slopes, one_step, residual_gradients
from trimtab.engine.state import Nothing
from trimtab.methods.base import Method, share_of_views
from trimtab.methods.facts import PAPER_SETS, MethodInfo, Released
from trimtab.task import Task


@dataclass(frozen=True, kw_only=True)
class TPS(Method):
    """Test-time prototype shifting, per class. Nothing is kept between images."""

    name: ClassVar[str] = "tps"
    parts: ClassVar[tuple[str, ...]] = ("shifted",)
    info: ClassVar[MethodInfo] = MethodInfo(
        title="TPS",
        paper="Test-Time Prototype Shifting",
        year=2025,
        venue="WACV",
        keeps="nothing",
        gradients=True,
        views="several",
        look=("#8C8C8C", "<", ":"),
    )
    released_values: ClassVar[Released] = {
        dataset: {"learning_rate": 5e-3 if dataset.startswith("imagenet") else 1e-3} for dataset in PAPER_SETS
    }

    learning_rate: float = number(
        5e-3, least=0, symbol="gamma", about="Length of the one AdamW step; released: 5e-3 on ImageNet, 1e-3 elsewhere."
    )
    adam_eps: float = number(
        1e-8, least=1e-12, symbol="epsilon of AdamW", about="Keeps the step finite where a gradient is zero."
    )
    view_fraction: float = share_of_views()

    def new_state(self, task: Task) -> Nothing:  # noqa: ARG002
        """Nothing."""
        return Nothing()

    def observe(self, image: Image, state: Nothing) -> None:
        """Nothing is kept."""

    def predict(self, image: Image, state: Nothing) -> dict[str, Array]:  # noqa: ARG002
        """The plain view under the shifted text."""
        return {"shifted": softmax(self.logits(image))}

    def logits(self, image: Image) -> Array:
        """(C,): the plain view against the shifted text prototypes."""
        block, scale = image.block, image.logit_scale
        text, lengths = block.task.text_prototypes, np.ones(block.task.classes, np.float32)
        slopes = scale * entropy_slopes(block.kept_logits[image.row])
        gradients = residual_gradients(text, lengths, slopes, block.kept_features[image.row])
        shifted = one_step(text, lengths, gradients, self.learning_rate, self.adam_eps)
        return np.asarray(scale * (shifted @ image.plain), np.float32)

    def operations(self, size: Size) -> float:
        """Every view against every text, the gradient from the confident ones, and the shifted text."""
        return (
            size.products(size.views, size.classes)
            + size.products(size.kept, size.classes)
            + size.products(1, size.classes)
        )
