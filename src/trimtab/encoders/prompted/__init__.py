"""Text towers that take contexts: the forward pass and the pull-back that prompt learning needs.

`text_tower(encoder, class_names)` gives one for any encoder that has it. Torch is imported when one is made.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.text_tower import TextTower

WORDS = "a photo of a"

GivenContext = str | Path | NDArray[np.float32] | None


def text_tower(
    encoder: Any,
    class_names: Sequence[str],
    *,
    words: str = WORDS,
    position: str | None = None,
    context: GivenContext = None,
) -> TextTower:
    """The text tower of an encoder, or one sentence on why it has none; see `TorchEncoder.text_tower`."""
    make = getattr(encoder, "text_tower", None)
    if make is None:
        raise TrimtabError(
            f"The encoder {encoder.name} has no text tower that prompts can be learned through; "
            "use lite, or a CLIP under hf:, openai: or openclip:."
        )
    tower: TextTower = make(class_names, words=words, position=position, context=context)
    return tower
