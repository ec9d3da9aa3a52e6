"""MCP: Multi-Cache enhanced Prototype learning (ICCV 2025), image by image with dictionaries of lists.

Equation numbers are the paper's: 1 softmax, 2 center, 3 retrieval, 4 prototype term, 5 fusion (not done here:
the three parts come back separately).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arithmetic import (
    Vector,
    affinity,
    as_images,
    as_vectors,
    confident_views,
    dot,
    entropy,
    logits_of,
    mean_vector,
    normalized,
    relative_entropy,
    single_precision_vote,
    softmax,
    stacked,
)
from .caches import Cache, Item, highest_entropy, offer_lowest


@dataclass
class Caches:
    """The three caches, each a list of items per class; a class without items is absent."""

    entropy: Cache = field(default_factory=dict)
    align: Cache = field(default_factory=dict)
    negative: Cache = field(default_factory=dict)

    def features(self, label: int) -> list[Vector]:
        """What the entropy and the align cache hold for a class; an image kept by both counts twice."""
        return [item.feature for item in self.entropy.get(label, []) + self.align.get(label, [])]


@dataclass(frozen=True)
class Image:
    """What one image offers before any cache is looked at."""

    plain: Vector  # the feature of view 0
    query: Vector  # the feature that stands for the image
    logits: Vector
    vote: Vector  # q: mean probabilities of the confident views


@dataclass(frozen=True)
class Parameters:
    entropy_slots: int
    align_slots: int
    negative_slots: int
    positive_alpha: float
    positive_beta: float
    negative_alpha: float
    negative_beta: float
    entropy_low: float
    entropy_high: float
    mask_low: float
    mask_high: float
    center_weight: float
    retrieval_beta: float
    promotion: bool


def run_mcp(
    views: ArrayLike,
    text_prototypes: ArrayLike,
    logit_scale: float,
    *,
    entropy_slots: int = 10,
    align_slots: int = 10,
    negative_slots: int = 3,
    positive_alpha: float = 2.0,
    positive_beta: float = 5.0,
    negative_alpha: float = 0.117,
    negative_beta: float = 1.0,
    entropy_low: float = 0.2,
    entropy_high: float = 0.5,
    mask_low: float = 0.03,
    mask_high: float = 1.0,
    center_weight: float = 0.8,
    retrieval_beta: float = 5.5,
    promotion: bool = True,
    view_fraction: float = 0.1,
    order: Literal["write_first", "predict_first"] = "write_first",
    query: Literal["plain", "confident_mean"] = "plain",
) -> dict[str, NDArray[np.float64]]:
    """The parts `text`, `prototype`, `retrieval`, each (N, C) probabilities, for features (N, V, d)."""
    parameters = Parameters(
        entropy_slots,
        align_slots,
        negative_slots,
        positive_alpha,
        positive_beta,
        negative_alpha,
        negative_beta,
        entropy_low,
        entropy_high,
        mask_low,
        mask_high,
        center_weight,
        retrieval_beta,
        promotion,
    )
    text = as_vectors(text_prototypes)
    caches = Caches()
    rows: dict[str, list[Vector]] = {"text": [], "prototype": [], "retrieval": []}
    for image_views in as_images(views):
        image = look_at(image_views, text, logit_scale, view_fraction, query)
        if order == "write_first":
            write(caches, image, text, parameters)
        rows["text"].append(image.vote)
        rows["prototype"].append(softmax(prototype_logits(caches, image, parameters)))
        rows["retrieval"].append(retrieval_part(caches, image, text, logit_scale, retrieval_beta))
        if order == "predict_first":
            write(caches, image, text, parameters)
    return {part: stacked(part_rows, len(text)) for part, part_rows in rows.items()}


def look_at(
    image_views: list[Vector], text: list[Vector], logit_scale: float, view_fraction: float, query: str
) -> Image:
    view_logits = [logits_of(view, text, logit_scale) for view in image_views]  # Eq. 1
    kept = confident_views(view_logits, view_fraction)
    vote = single_precision_vote([view_logits[view] for view in kept])
    if query == "confident_mean":
        feature = mean_vector([image_views[view] for view in kept])  # deliberately not normalized again
        logits = mean_vector([view_logits[view] for view in kept])
        return Image(image_views[0], feature, logits, vote)
    return Image(image_views[0], image_views[0], view_logits[0], vote)


def write(caches: Caches, image: Image, text: list[Vector], parameters: Parameters) -> None:
    voted = int(np.argmax(image.vote))
    middle = center(caches, voted, text, parameters.center_weight)  # as it was before this image

    probabilities = softmax(image.logits)
    own_item = Item(image.query, entropy(probabilities))
    offer_lowest(caches.entropy, int(np.argmax(image.logits)), own_item, parameters.entropy_slots)

    aligned_item = Item(image.plain, entropy(image.vote))
    offer_nearest(caches.align, voted, aligned_item, parameters.align_slots, middle)

    reflect(caches, image, entropy(probabilities), parameters)


def center(caches: Caches, label: int, text: list[Vector], center_weight: float) -> Vector:
    features = caches.features(label)
    if not features:
        return text[label]
    return center_weight * mean_vector(features) + (1.0 - center_weight) * text[label]  # Eq. 2


def offer_nearest(cache: Cache, label: int, item: Item, slots: int, middle: Vector) -> None:
    """Replace the item of highest entropy only by one of lower entropy that is also nearer to the class's center."""
    items = cache.setdefault(label, [])
    if len(items) < slots:
        items.append(item)
    elif items:
        worst = highest_entropy(items)
        nearer = distance(item.feature, middle) < distance(items[worst].feature, middle)
        if item.entropy < items[worst].entropy and nearer:
            items[worst] = item


def distance(left: Vector, right: Vector) -> float:
    return math.sqrt(dot(left - right, left - right))


def reflect(caches: Caches, image: Image, nats: float, parameters: Parameters) -> None:
    """The reflecting mechanism: look again at an uncertain image with the entropy cache's help, then decide."""
    classes = len(image.logits)
    low, high = parameters.entropy_low, parameters.entropy_high
    if not low < relative_entropy(nats, classes) < high:
        return
    logits = image.logits.copy()
    for label, items in caches.entropy.items():
        for item in items:
            similarity = dot(image.query, item.feature)
            logits[label] += affinity(similarity, parameters.positive_alpha, parameters.positive_beta)
    probabilities = softmax(logits)
    reflected_label, reflected_nats = int(np.argmax(logits)), entropy(probabilities)
    reflected = relative_entropy(reflected_nats, classes)
    if low < reflected < high:
        item = Item(image.query, reflected_nats, probabilities)
        offer_lowest(caches.negative, reflected_label, item, parameters.negative_slots)
    elif reflected <= low and parameters.promotion:
        offer_lowest(caches.entropy, reflected_label, Item(image.query, reflected_nats), parameters.entropy_slots)


def prototype_logits(caches: Caches, image: Image, parameters: Parameters) -> Vector:
    """z + A(f V') L_p - A(f Q_n') L_n."""
    logits = image.logits.copy()
    for label in range(len(logits)):
        features = caches.features(label)
        if features:
            similarity = dot(image.query, mean_vector(features))
            logits[label] += affinity(similarity, parameters.positive_alpha, parameters.positive_beta)  # Eq. 4, left
    for items in caches.negative.values():
        for item in items:
            weight = affinity(dot(image.query, item.feature), parameters.negative_alpha, parameters.negative_beta)
            assert item.probabilities is not None
            for label, probability in enumerate(item.probabilities):
                if parameters.mask_low < probability < parameters.mask_high:
                    logits[label] -= weight  # Eq. 4, right
    return logits


def retrieval_part(
    caches: Caches, image: Image, text: list[Vector], logit_scale: float, retrieval_beta: float
) -> Vector:
    """softmax of s <f, f_r>; f_r mixes a class's cached features and its text prototype by their likeness to f."""
    logits = []
    for label, prototype in enumerate(text):
        mixed = np.zeros_like(prototype)
        for feature in [*caches.features(label), prototype]:
            mixed = mixed + affinity(dot(image.query, feature), 1.0, retrieval_beta) * feature  # Eq. 3
        logits.append(logit_scale * dot(image.query, normalized(mixed)))
    return softmax(np.array(logits))
