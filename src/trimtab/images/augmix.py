"""AugMix: a blend of a view with three lightly altered copies of itself.

Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", ICLR 2020, with the
settings of test-time prompt tuning (Shu et al., NeurIPS 2022): three chains of one to three operations at severity 1,
Dirichlet(1, 1, 1) weights over the chains and a Beta(1, 1) share of the untouched view.

Those papers blend tensors after normalization. All weights sum to one and normalization is affine, so blending bytes
gives the same picture up to rounding, and keeps the encoder's normalization where it belongs.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageOps

CHAINS = 3
LONGEST_CHAIN = 3
SEVERITY = 1.0  # of 10: the papers' scale

_Operation = Callable[[Image.Image, Generator], Image.Image]


def augmix(view: NDArray[np.uint8], rng: Generator) -> NDArray[np.uint8]:
    """Blend the (S, S, 3) view with altered copies of itself."""
    weights = rng.dirichlet(np.ones(CHAINS))
    untouched = rng.beta(1.0, 1.0)
    original = Image.fromarray(view)
    blend = untouched * view.astype(np.float32)
    for weight in weights:
        altered = original
        for _ in range(rng.integers(1, LONGEST_CHAIN + 1)):
            altered = OPERATIONS[rng.integers(len(OPERATIONS))](altered, rng)
        blend += np.float32((1 - untouched) * weight) * np.asarray(altered)
    return np.rint(blend).clip(0, 255).astype(np.uint8)


def _strength(rng: Generator, largest: float) -> float:
    """A random part of an operation's largest strength, at most a tenth of it at severity 1."""
    return float(rng.uniform(0.1, SEVERITY)) * largest / 10


def _signed(rng: Generator, value: float) -> float:
    return -value if rng.random() > 0.5 else value


def _moved(image: Image.Image, matrix: tuple[float, float, float, float, float, float]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR)


def _autocontrast(image: Image.Image, _: Generator) -> Image.Image:
    return ImageOps.autocontrast(image)


def _equalize(image: Image.Image, _: Generator) -> Image.Image:
    return ImageOps.equalize(image)


def _posterize(image: Image.Image, rng: Generator) -> Image.Image:
    return ImageOps.posterize(image, 4 - int(_strength(rng, 4)))


def _solarize(image: Image.Image, rng: Generator) -> Image.Image:
    return ImageOps.solarize(image, 256 - int(_strength(rng, 256)))


def _rotate(image: Image.Image, rng: Generator) -> Image.Image:
    return image.rotate(_signed(rng, int(_strength(rng, 30))), resample=Image.Resampling.BILINEAR)


def _shear_x(image: Image.Image, rng: Generator) -> Image.Image:
    return _moved(image, (1, _signed(rng, _strength(rng, 0.3)), 0, 0, 1, 0))


def _shear_y(image: Image.Image, rng: Generator) -> Image.Image:
    return _moved(image, (1, 0, 0, _signed(rng, _strength(rng, 0.3)), 1, 0))


def _translate_x(image: Image.Image, rng: Generator) -> Image.Image:
    return _moved(image, (1, 0, _signed(rng, int(_strength(rng, image.width / 3))), 0, 1, 0))


def _translate_y(image: Image.Image, rng: Generator) -> Image.Image:
    return _moved(image, (1, 0, 0, 0, 1, _signed(rng, int(_strength(rng, image.height / 3)))))


# The nine that do not overlap with the corruptions of ImageNet-C.
OPERATIONS: tuple[_Operation, ...] = (
    _autocontrast,
    _equalize,
    _posterize,
    _solarize,
    _rotate,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
)
