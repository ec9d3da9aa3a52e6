"""A set under a real shift: noise, blur, low contrast or JPEG artifacts at five strengths, made on the fly.

The strengths are those of the common-corruption benchmarks (CIFAR-10-C for small images, ImageNet-C for larger ones),
so that figures can be compared with published ones. Every image gets the same corruption whenever it is loaded.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from trimtab import arguments
from trimtab.data.base import ImageSet
from trimtab.errors import TrimtabError

SMALL_SIDE: Final = 96  # up to this many pixels an image counts as small: CIFAR (32), emoji (72), ...
# kind -> what the strengths 1 to 5 mean, for small images and for larger ones
STRENGTHS: Final[dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "noise": ((0.04, 0.06, 0.08, 0.09, 0.10), (0.08, 0.12, 0.18, 0.26, 0.38)),  # deviation, as a share of the range
    "blur": ((0.4, 0.6, 0.7, 0.8, 1.0), (1, 2, 3, 4, 6)),  # deviation of the Gaussian, in pixels
    "contrast": ((0.75, 0.5, 0.4, 0.3, 0.15), (0.4, 0.3, 0.2, 0.1, 0.05)),  # what remains of the contrast
    "jpeg": ((80, 65, 58, 50, 40), (25, 18, 15, 10, 7)),  # quality
}


@dataclass(frozen=True, eq=False)
class CorruptedImages:
    """Loads an image and corrupts it, always in the same way for the same seed and index."""

    load: Callable[[int], NDArray[np.uint8]]
    kind: str
    strength: int
    seed: int

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index`, corrupted."""
        image = self.load(index)
        small, large = STRENGTHS[self.kind]
        amount = (small if min(image.shape[:2]) <= SMALL_SIDE else large)[self.strength - 1]
        match self.kind:
            case "noise":
                rng = np.random.default_rng([self.seed, index])
                return _bytes(image + rng.normal(scale=255 * amount, size=image.shape))
            case "blur":
                return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(amount)))
            case "contrast":
                means = image.mean(axis=(0, 1), keepdims=True)
                return _bytes((image - means) * amount + means)
            case _:
                return _through_jpeg(image, int(amount))


def corrupted(images: ImageSet, kind: str, strength: int, *, seed: int = 0) -> ImageSet:
    """The same set with every image corrupted by `kind` (noise, blur, contrast, jpeg) at `strength` 1 to 5."""
    arguments.instance("images", images, ImageSet, "an ImageSet, as trimtab.data.load_dataset gives")
    arguments.whole("seed", seed, least=0)
    _check(kind, strength)
    return replace(
        images,
        name=f"{images.name}+{kind}:{strength}",
        load=CorruptedImages(images.load, kind, strength, seed),
    )


def parse_corruption(text: str) -> tuple[str, int]:
    """Read "noise:3" as ("noise", 3)."""
    kind, _, strength = text.partition(":")
    if not strength.isdecimal():
        raise TrimtabError(f"A corruption is written kind:strength, as in noise:3, not {text!r}.")
    _check(kind, int(strength))
    return kind, int(strength)


def _check(kind: str, strength: int) -> None:
    if not isinstance(kind, str) or kind not in STRENGTHS:
        raise TrimtabError(f"There is no corruption {arguments.shown(kind)}; choose one of {', '.join(STRENGTHS)}.")
    arguments.whole(f"The strength of {kind}", strength, least=1, most=5)


def _through_jpeg(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    packed = io.BytesIO()
    Image.fromarray(image).save(packed, "JPEG", quality=quality)
    return np.asarray(Image.open(packed).convert("RGB"))


def _bytes(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.clip(values, 0, 255).astype(np.uint8)
