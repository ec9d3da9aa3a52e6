"""The views of an image: the plain one, and random resized crops of it.

View 0 is CLIP's own: shorter side resized, center square. The others follow torchvision's published rule for
`RandomResizedCrop` (area and aspect drawn at random, ten tries, then the center; bilinear) and a mirror image half the
time. View v of an image depends on the image's own pixels, the seed and v, and on nothing else: not on its place in a
data set or a stream, not on the batch, not on how many views there are in all. So a feature store and a `Classifier`
see the same crops of the same picture.
"""

import math
import zlib

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.images.augmix import augmix as augmix_view
from trimtab.images.decode import check_image
from trimtab.images.resample import Box, resize, resize_crops

SMALLEST = 0.08  # share of the image's area that a random crop covers at least
RATIOS = (3 / 4, 4 / 3)
TRIES = 10


def make_views(
    image: NDArray[np.uint8],
    size: int,
    views: int,
    seed: int,
    *,
    augmix: bool = False,
    scale: tuple[float, float] = (SMALLEST, 1.0),
    first: int = 0,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """(V, size, size, 3): the plain view and V - 1 random ones, drawn by the seed and the image's content.

    `scale` bounds the share of the image's area that a random crop covers; `augmix` blends each random view with
    altered copies of itself; `first` leaves out the views before it; `out`, if given, is filled and returned.
    """
    check_view_options(views, seed, scale)
    arguments.whole("size", size, least=1)
    arguments.whole("first", first, least=0, most=views - 1)
    height, width = check_image(image).shape[:2]
    if out is None:
        out = np.empty((views - first, size, size, 3), dtype=np.uint8)
    if first == 0:
        out[0] = resize_shorter_and_crop(image, size)
    if views == 1:
        return out
    number = content_number(image)
    draws = [np.random.default_rng([seed, number, view]) for view in range(max(first, 1), views)]
    crops = [random_crop(rng, height, width, scale) for rng in draws]
    mirrors = [bool(rng.random() < 0.5) for rng in draws]
    random_views = out[-len(draws) :]
    resize_crops(image, crops, mirrors, random_views)
    if augmix:
        for view, rng in zip(random_views, draws, strict=True):
            view[:] = augmix_view(view, rng)
    return out


def enough_side(size: int) -> int:
    """The shorter side that an image needs at most: with it, the smallest random crop has `size` pixels of its own."""
    return math.ceil(size / math.sqrt(SMALLEST * RATIOS[0]))


def content_number(image: NDArray[np.uint8]) -> int:
    """The number that stands for an image when its crops are drawn: a checksum of its pixels."""
    return zlib.crc32(np.ascontiguousarray(image).data)


def resize_shorter_and_crop(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The plain view of CLIP: the shorter side resized to `size` (bicubic, antialiased), then the center square.

    Odd margins leave the extra pixel on the right and at the bottom, as transformers does it. (Torchvision, and so
    the original CLIP, rounds half to even instead, which is one pixel to the right for every second odd margin.)
    """
    height, width = check_image(image).shape[:2]
    shorter = min(height, width)
    tall, wide = size * height // shorter, size * width // shorter
    center = Box((tall - size) // 2, (wide - size) // 2, size, size)
    return resize(image, tall, wide, window=center)


def random_crop(rng: Generator, height: int, width: int, scale: tuple[float, float]) -> Box:
    """Torchvision's rule: area uniform in `scale`, aspect log-uniform in 3/4 .. 4/3, place uniform; or the center."""
    for _ in range(TRIES):
        area = height * width * rng.uniform(*scale)
        ratio = math.exp(rng.uniform(math.log(RATIOS[0]), math.log(RATIOS[1])))
        crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            top = int(rng.integers(height - crop_height + 1))
            left = int(rng.integers(width - crop_width + 1))
            return Box(top, left, crop_height, crop_width)
    # Too elongated for any try to fit: the whole shorter side, and as much of the longer as the ratios allow.
    crop_width = min(width, round(height * RATIOS[1]))
    crop_height = min(height, round(width / RATIOS[0]))
    return Box((height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width)


def check_view_options(views: int, seed: int, scale: tuple[float, float] = (SMALLEST, 1.0)) -> None:
    """Refuse options that cannot be meant."""
    arguments.whole("views", views, least=1)
    arguments.whole("seed", seed, least=0, most=2**32 - 1)
    pair = isinstance(scale, tuple | list) and len(scale) == 2
    low, high = (arguments.number("scale", share) for share in scale) if pair else (0.0, 0.0)
    if not 0 < low <= high <= 1:
        raise TrimtabError(f"scale must be two shares of the area, 0 < low <= high <= 1, not {scale}.")
