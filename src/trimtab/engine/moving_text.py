"""Text prototypes that move along the stream, for DPE and for the released form of MCP++.

An image's zero-shot view of the text is then known only when its turn comes, so such methods look at each image again,
under the text as it is by then.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.block import Block, Image
from trimtab.engine.equations import Array
from trimtab.engine.residuals import Floats


@dataclass(eq=False)
class RetoldBlock(Block):
    """A block seen under other text prototypes than the task's."""

    text: Array = field(kw_only=True)  # (C, d), unit

    @cached_property
    def view_logits(self) -> Array:
        """(B, V, C): every view against every text prototype."""
        logits: Array = self.views @ self.text.T
        logits *= np.float32(self.task.logit_scale)
        return logits


class RunningText:
    """The running mean of the text prototypes that confident images have moved; the text at the start counts once."""

    def __init__(self, text: Array) -> None:
        self.mean: Array = text.copy()
        self.updates = np.zeros(1, np.int64)
        self.lengths: Array = np.ones(len(text), np.float32)
        self.units: Array = text.copy()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What is saved."""
        return {"mean": self.mean, "updates": self.updates, "lengths": self.lengths, "units": self.units}

    def take_in(self, moved: Floats) -> None:
        """One more image has moved the text."""
        self.updates += 1
        self.mean += (moved - self.mean) / np.float32(self.updates[0] + 1)
        self.lengths[...] = np.sqrt(np.einsum("cd,cd->c", self.mean, self.mean))
        np.divide(self.mean, self.lengths[:, None], out=self.units)

    def seen_by(self, image: Image) -> Image:
        """The image in a block of its own, under the text as it is now; of no use once the text has moved on."""
        block, row = image.block, image.row
        views = block.views[row : row + 1]
        own = RetoldBlock(block.task, views, image.position, block.view_fraction, block.query, text=self.units)
        return Image(own, 0)


Answer = TypeVar("Answer")


class LastAnswer(Generic[Answer]):
    """What was worked out for the image at hand, so that observing and predicting it do the work once. Never saved."""

    def __init__(self) -> None:
        self._block: Block | None = None
        self._row = -1
        self._answer: Answer | None = None

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Nothing is saved."""
        return {}

    def keep(self, image: Image, answer: Answer) -> Answer:
        """Remember an answer, in the place of any other."""
        self._block, self._row, self._answer = image.block, image.row, answer
        return answer

    def recall(self, image: Image) -> Answer | None:
        """The answer for this very image, if it is the last one worked out."""
        return self._answer if image.block is self._block and image.row == self._row else None
