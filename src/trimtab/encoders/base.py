"""What trimtab needs of an image-and-text encoder, and nothing more."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Encoder(Protocol):
    """A frozen pair of towers that map images and texts into one space."""

    @property
    def name(self) -> str:
        """How the user chose it: "lite", "hf:openai/clip-vit-base-patch16", ..."""

    @property
    def dim(self) -> int:
        """The number of feature dimensions, d."""

    @property
    def input_size(self) -> int:
        """Side of the square images that `encode_images` takes, in pixels."""

    @property
    def logit_scale(self) -> float:
        """What a cosine is multiplied by before the softmax (exp of the checkpoint's parameter)."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and preprocessing: equal fingerprints give equal features."""

    def encode_images(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, input_size, input_size, 3) RGB bytes -> (B, d) unit features; mean and deviation are applied inside."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences -> (n, d) unit features."""
