"""How well an encoder of lower precision agrees with the one it was made from, on real images."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError

CLASS_NAMES = Path(__file__).parent / "lite" / "imagenet_classes.txt"
NAMES = 100  # of ImageNet's classes, evenly spread, that the images are sorted into
# Below these an encoder is not written: its features are another model's.
LEAST_COSINE = 0.97
LEAST_SAME = 0.85


@dataclass(frozen=True)
class Agreement:
    """Cosines between both encoders' features of each image, and the share of images with the same best name."""

    images: int
    mean_cosine: float
    least_cosine: float
    same_top1: float

    def __str__(self) -> str:
        return (
            f"on {self.images} images: cosine {self.mean_cosine:.4f} on average, {self.least_cosine:.4f} at least; "
            f"same best of {NAMES} names for {self.same_top1:.1%}"
        )

    def refuse_poor(self, name: str, precision: str) -> None:
        """An error if what agrees this badly should not be used."""
        if self.mean_cosine < LEAST_COSINE or self.same_top1 < LEAST_SAME:
            raise TrimtabError(
                f"{name} does not stand {precision} ({self}; at least {LEAST_COSINE} and {LEAST_SAME:.0%} are asked "
                "for); give more images that are like yours, or keep fp32."
            )


def agreement(original: Encoder, other: Encoder, pixels: NDArray[np.uint8]) -> Agreement:
    """Compare both on (N, size, size, 3) images; texts are the original's for both."""
    lines = CLASS_NAMES.read_text(encoding="utf-8").splitlines()
    names = lines[:: len(lines) // NAMES][:NAMES]
    text = original.encode_texts([f"a photo of a {name}." for name in names])
    one, two = original.encode_images(pixels), other.encode_images(pixels)
    cosines = np.sum(one * two, axis=1)
    same = (one @ text.T).argmax(axis=1) == (two @ text.T).argmax(axis=1)
    return Agreement(len(pixels), float(cosines.mean()), float(cosines.min()), float(same.mean()))
