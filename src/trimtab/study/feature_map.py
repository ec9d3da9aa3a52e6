"""The feature space in two dimensions after a run: images, what the caches hold of them, and the prototypes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.orders import order_by_name
from trimtab.engine.bank import Bank
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods.base import Method

MOST_CLASSES = 6  # more colors cannot be distinguished
MOST_IMAGES = 1500  # of the chosen classes: t-SNE of more takes minutes and shows no more
PROJECTIONS = ("pca", "tsne")

Places = NDArray[np.floating[Any]]  # (n, 2)


@dataclass(frozen=True)
class Member:
    """An image that a cache holds."""

    section: str  # the cache
    owner: int  # the class it is held for, as an index of `FeatureMap.class_names`
    place: tuple[float, float]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Everything that a figure of the feature space shows. Labels and owners count the chosen classes from 0."""

    dataset: str
    method: str
    projection: str
    class_names: tuple[str, ...]  # the chosen classes
    all_classes: int  # how many there are, the chosen ones included
    all_images: int  # how many images the chosen classes have; `images` may be fewer
    images: Places
    labels: NDArray[np.int64]  # (images,) true labels; -1: of another class, though a cache of a chosen one holds it
    members: tuple[Member, ...]
    text: Places  # one prototype per class
    visual: Places  # one prototype per class: the mean of what speaks for it


def map_features(
    store: FeatureStore,
    method: Method,
    *,
    classes: tuple[int, ...] | None = None,
    projection: str = "pca",
    order: str = "shuffled",
    seed: int = 0,
) -> FeatureMap:
    """Run the method on the store, and lay out a few classes with their cache members and prototypes.

    `classes` are label indices; without them the six with most images are chosen. `projection` is "pca" or "tsne".
    """
    arguments.instance("store", store, FeatureStore, "a FeatureStore")
    arguments.instance("method", method, Method, "a method such as MCP()")
    if not isinstance(projection, str) or projection not in PROJECTIONS:
        asked = arguments.shown(projection)
        raise TrimtabError(f"There is no projection {asked}; choose one of {', '.join(PROJECTIONS)}.")
    chosen = largest_classes(store) if classes is None else tuple(arguments.class_indices("classes", classes).tolist())
    if not chosen or not 0 <= min(chosen) <= max(chosen) < len(store.class_names):
        raise TrimtabError(f"classes must be class indices below {len(store.class_names)}, not {chosen}.")
    if len(chosen) > MOST_CLASSES:
        raise TrimtabError(f"{len(chosen)} classes are too many for one map; choose at most {MOST_CLASSES}.")
    positions = order_by_name(order, labels=store.labels, domains=store.domains, seed=seed)
    task = store.task()
    stream = method.start(task)
    stream.run(store.rows(positions), keep_parts=False)
    banks = list(stream.state.banks())
    if not banks:
        raise TrimtabError(
            f"{method.name} keeps no bank of images, so there is nothing to mark; choose a cache method."
        )
    held = _held(banks, chosen)
    labels = store.labels[positions]
    background = np.flatnonzero(np.isin(labels, chosen))
    shown = np.union1d(background[:MOST_IMAGES], [position for _, _, position in held]).astype(np.int64)

    features = store.rows(positions[shown])[:, 0].astype(np.float32)
    text, visual = task.text_prototypes[list(chosen)], _visual(banks, chosen)
    # A gap lies between texts and images, so the texts are moved onto the images' mean.
    moved = text - text.mean(axis=0) + features.mean(axis=0)
    places = _projected(features, np.concatenate([moved, visual]), projection)
    images, text_places, visual_places = np.split(places, [len(features), len(features) + len(text)])
    row_of = {int(position): row for row, position in enumerate(shown)}
    return FeatureMap(
        dataset=store.info.dataset,
        method=method.name,
        projection=projection,
        class_names=tuple(store.class_names[label] for label in chosen),
        all_classes=len(store.class_names),
        all_images=len(background),
        images=images,
        labels=np.array([chosen.index(label) if label in chosen else -1 for label in labels[shown].tolist()]),
        members=tuple(
            Member(section, owner, (float(images[row_of[position], 0]), float(images[row_of[position], 1])))
            for section, owner, position in held
        ),
        text=text_places,
        visual=visual_places,
    )


def largest_classes(store: FeatureStore) -> tuple[int, ...]:
    """The classes with most images, the largest first."""
    counts = np.bincount(store.labels[store.labels >= 0])
    return tuple(int(label) for label in np.argsort(-counts, kind="stable")[:MOST_CLASSES])


def _held(banks: list[Bank], classes: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """(section, index of the class that holds it, position in the stream) of every cache member of the classes."""
    return [
        (name, owner, int(position))
        for bank in banks
        for name, span in bank.sections.items()
        for owner, label in enumerate(classes)
        for position in bank.sources[label, span]
        if position >= 0
    ]


def _visual(banks: list[Bank], classes: tuple[int, ...]) -> NDArray[np.float32]:
    """(classes, d): the mean of what speaks for each class."""
    total, count = np.zeros((len(classes), banks[0].all_rows.shape[1]), np.float32), np.zeros(len(classes), np.float32)
    for bank in banks:
        for name, span in bank.sections.items():
            if name != "negative":
                occupied = bank.occupied[list(classes), span]
                total += np.einsum("cs,csd->cd", occupied, bank.items_of(classes, span))
                count += occupied.sum(axis=1)
    return (total / np.maximum(count, 1)[:, None]).astype(np.float32)


def _projected(features: NDArray[np.float32], prototypes: NDArray[np.float32], projection: str) -> Places:
    """(n + m, 2): the features, then the prototypes. Principal components are those of the features alone."""
    everything = np.concatenate([features, prototypes])
    if projection == "pca":
        from sklearn.decomposition import PCA

        return PCA(2, random_state=0).fit(features).transform(everything)
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    nearby = min(30, len(everything) // 4)
    with threadpool_limits(1):  # its threads wait for each other busily: hundreds of times slower on a busy machine
        return TSNE(2, init="pca", perplexity=nearby, random_state=0).fit_transform(everything)
