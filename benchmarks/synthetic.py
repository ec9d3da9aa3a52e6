"""CLIP-like synthetic features: what the benchmarks run on, since real ones cannot be shipped.

The shape of real CLIP ViT-B/32 features on ImageNet is imitated where it decides how much work a method has: images and
texts live in two narrow cones (the modality gap), classes come in families of look-alikes, most images are easy and
some are hard, and random crops of an image mostly agree with it but sometimes show something else. The constants below
were fitted so that at 1,000 classes and 512 dimensions the zero-shot accuracy, the entropies, and the cosines within
and between the modalities match measurements on real features (`python -m benchmarks.synthetic` prints both).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    """Where the lengths of a feature go. A real feature is mostly its modality's mean."""

    image_mean: float = 0.72
    text_mean: float = 0.78
    gap_cosine: float = 0.33  # between the two modalities' means
    image_content: float = 0.515  # length of what an image shows, for an image of average difficulty
    difficulty: float = 0.17  # spread (log-normal) of that length over images
    agreement: float = 0.40  # cosine between a class's content in images and in text
    family_size: int = 12  # classes that look alike
    family_share: float = 0.63  # of a class's content that it shares with its family
    spectrum: float = 0.50  # decay of the content's power over directions
    deceptive: float = 0.26  # share of images that look like another class of the family: sure and wrong
    crop_change: tuple[float, float] = (0.15, 0.6)  # length of what a crop changes, least and most
    bad_crops: float = 0.2  # share of crops that show something else


LOGIT_SCALE = 100.0
# ViT-B/32 on 6,986 ImageNet images; entropies are nats over log2 C, the unit of the papers' thresholds.
MEASURED_ON_CLIP = {
    "zero-shot accuracy": 0.611,
    "share inside the entropy window (0.2, 0.5)": 0.369,
    "entropy, 5 % quantile": 0.012,
    "entropy, median": 0.154,
    "entropy, 95 % quantile": 0.401,
    "image to own text, median cosine": 0.306,
    "image to any text, mean cosine": 0.187,
    "accuracy below entropy 0.2": 0.753,
}


def make_features(
    classes: int, dim: int, views: int, images: int, seed: int = 0, shape: Shape | None = None
) -> tuple[Array, NDArray[np.int64], Array]:
    """Unit features (images, views, dim), plain view first; labels (images,); unit text prototypes (classes, dim)."""
    shape = shape or Shape()
    random = np.random.default_rng(seed)
    image_axis, text_axis = _axes(random, dim, shape.gap_cosine)
    # Each modality spends most of its variance on directions of its own, and the meaning they share on a third set.
    power = (np.arange(1, dim + 1) ** -shape.spectrum).astype(np.float32)
    shared_power, image_power, text_power = (random.permutation(power) for _ in range(3))
    shared = _class_content(random, classes, shared_power, shape)
    image_own = _class_content(random, classes, image_power, shape)
    text_own = _class_content(random, classes, text_power, shape)
    seen = _unit(np.sqrt(shape.agreement) * shared + np.sqrt(1 - shape.agreement) * image_own)
    told = _unit(np.sqrt(shape.agreement) * shared + np.sqrt(1 - shape.agreement) * text_own)
    text = _unit(shape.text_mean * text_axis + np.sqrt(1 - shape.text_mean**2) * told)

    labels = random.integers(0, classes, images)
    sibling = labels // shape.family_size * shape.family_size + random.integers(0, shape.family_size, images)
    shown = np.where(random.random(images) < shape.deceptive, np.minimum(sibling, classes - 1), labels)
    clarity = np.exp(shape.difficulty * random.standard_normal((images, 1)) - shape.difficulty**2 / 2)
    content = (np.minimum(shape.image_content * clarity, 0.69)).astype(np.float32)
    rest = np.sqrt(np.maximum(1 - shape.image_mean**2 - content**2, 0.0)).astype(np.float32)
    plain = shape.image_mean * image_axis + content * seen[shown] + rest * _directions(random, (images,), image_power)
    features = np.empty((images, views, dim), dtype=np.float32)
    features[:, 0] = _unit(plain)
    low, high = shape.crop_change
    for view in range(1, views):
        change = random.uniform(low, high, (images, 1)).astype(np.float32)
        kept = np.where(random.random((images, 1)) < shape.bad_crops, 0.2, 1.0).astype(np.float32)
        lost = (1 - kept) * content * seen[shown]
        features[:, view] = _unit(plain - lost + change * _directions(random, (images,), image_power))
    return features, labels, text


def _axes(random: np.random.Generator, dim: int, cosine: float) -> tuple[Array, Array]:
    first = _unit(random.standard_normal(dim).astype(np.float32))
    other = random.standard_normal(dim).astype(np.float32)
    across = _unit(other - (other @ first) * first)
    return first, _unit(cosine * first + np.sqrt(1 - cosine**2) * across)


def _class_content(random: np.random.Generator, classes: int, power: Array, shape: Shape) -> Array:
    families = _directions(random, (-(-classes // shape.family_size),), power)
    own = _directions(random, (classes,), power)
    member = families[np.arange(classes) // shape.family_size]
    return _unit(np.sqrt(shape.family_share) * member + np.sqrt(1 - shape.family_share) * own)


def _directions(random: np.random.Generator, count: tuple[int, ...], power: Array) -> Array:
    return _unit(random.standard_normal((*count, len(power)), dtype=np.float32) * power)


def _unit(vectors: Array) -> Array:
    unit: Array = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return unit


def describe(features: Array, labels: NDArray[np.int64], text: Array) -> dict[str, float]:
    """The figures of `MEASURED_ON_CLIP` for the plain views of other features."""
    cosines = features[:, 0].astype(np.float64) @ text.T.astype(np.float64)
    logits = LOGIT_SCALE * (cosines - cosines.max(axis=1, keepdims=True))
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    entropies = -(np.exp(logits) * logits).sum(axis=1) / np.log2(len(text))
    right = cosines.argmax(axis=1) == labels
    figures = (
        right.mean(),
        np.mean((entropies > 0.2) & (entropies < 0.5)),
        *np.quantile(entropies, (0.05, 0.5, 0.95)),
        np.median(cosines[np.arange(len(labels)), labels]),
        cosines.mean(),
        right[entropies < 0.2].mean(),
    )
    return dict(zip(MEASURED_ON_CLIP, map(float, figures), strict=True))


if __name__ == "__main__":
    ours = describe(*make_features(classes=1000, dim=512, views=1, images=4000))
    for name, measured in MEASURED_ON_CLIP.items():
        print(f"{name:45s} CLIP {measured:.3f}   synthetic {ours[name]:.3f}")
