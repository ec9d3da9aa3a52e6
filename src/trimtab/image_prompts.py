"""ImagePrompts: prompts in both towers that are tuned on one image, behind one small door.

A method that tunes what stands inside the image tower cannot live on features: it needs the pixels. NumPy is at the
border, so the method itself stays free of torch.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.source_stats import SourceStats


@dataclass(frozen=True)
class Alignment:
    """How prompts are tuned: entropy of the confident views plus distance of token statistics from a source's."""

    steps: int
    learning_rate: float
    entropy_fraction: float
    align_fraction: float
    align_weight: float
    first_block: int
    last_block: int
    prompt_tokens: bool


class ImagePrompts(Protocol):
    """The prompts of an encoder for a task's classes."""

    @property
    def input_size(self) -> int:
        """Side of the square images, in pixels."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that an answer depends on besides the image and the rule."""

    @property
    def text_operations(self) -> float:
        """What one pass of all classes' texts takes, as the released program makes it."""

    @property
    def image_operations(self) -> float:
        """What one pass of one view takes."""

    def check(self, source: SourceStats, file: str, rule: Alignment) -> None:
        """Refuse statistics of another backbone, of other prompts, or of too few blocks."""

    def answer(self, views: NDArray[np.uint8], rule: Alignment, source: SourceStats) -> NDArray[np.float32]:
        """(V, size, size, 3) bytes -> (C,) logits of view 0 under prompts tuned on the views; nothing is kept."""
