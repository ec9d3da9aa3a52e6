"""The feature space in two dimensions: images, what the caches hold of them, and the prototypes."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trimtab.data.orders import order_by_name
from trimtab.engine.bank import Bank
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods.base import Method
from trimtab.study.bench.rows import title_of
from trimtab.study.plots.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, axes_for, small_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES = (ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE)  # more classes than colours cannot be told apart
IMAGES = 1500  # of the drawn classes: t-SNE of more takes minutes and shows no more


def plot_features(
    store: FeatureStore,
    method: Method,
    *,
    classes: tuple[int, ...] | None = None,
    projection: str = "pca",
    order: str = "shuffled",
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Run the method on the store, then draw a few classes with cache members and text and visual prototypes marked.

    `classes` are label indices; without them the six with most images are drawn. `projection` is "pca" or "tsne".
    A dot's colour is the image's true label, a mark's colour the class whose cache holds it: where they differ, the
    cache is wrong.
    """
    positions = order_by_name(order, labels=store.labels, domains=store.domains, seed=seed)
    task = store.task()
    stream = method.start(task)
    stream.run(store.rows(positions), keep_parts=False)
    banks = list(stream.state.banks())
    if not banks:
        raise TrimtabError(f"{method.name} keeps no bank of images, so there is nothing to mark; draw a cache method.")
    chosen = classes or tuple(np.argsort(-np.bincount(store.labels[store.labels >= 0]), kind="stable")[: len(CLASSES)])
    labels = store.labels[positions]
    held = _held(banks, chosen)
    background = np.flatnonzero(np.isin(labels, chosen))[:IMAGES]
    images = np.union1d(background, [position for _, _, position in held]).astype(np.int64)
    points, prototypes = _projected(
        store, positions[images], _visual(banks, chosen), task.text_prototypes[list(chosen)], projection
    )

    ax = axes_for(ax, 6.4, 4.6)
    place_of = {int(position): place for place, position in enumerate(images)}
    for colour, label in zip(CLASSES, chosen, strict=False):
        mine = points[labels[images] == label]
        ax.scatter(mine[:, 0], mine[:, 1], 5, color=colour, alpha=0.35, linewidth=0)
        ax.scatter([], [], 25, color=colour, label=store.class_names[label])
        for section, owner, position in held:
            if owner == label:
                x, y = points[place_of[position]]
                ax.scatter(x, y, 34, marker=_mark(section), facecolor="none", edgecolor=colour, linewidth=1.2)
    for name, mark, size in (("text", "*", 110), ("visual", "D", 50)):
        for colour, (x, y) in zip(CLASSES, prototypes[name], strict=False):
            ax.scatter(x, y, size, marker=mark, color=colour, edgecolor=BLACK, linewidth=0.8, zorder=4)
    marks = [(_mark(section), f"in the {section} cache") for section in dict.fromkeys(name for name, _, _ in held)]
    for mark, name in [*marks, ("*", "text prototype"), ("D", "visual prototype")]:
        ax.scatter([], [], marker=mark, facecolor="none", edgecolor=BLACK, label=name)
    ax.set(xticks=[], yticks=[], xlabel=_axis(projection), ylabel="")
    ax.set_title(f"{store.info.dataset}: what {title_of(method.name)} keeps (dots: true label)", fontsize="medium")
    small_legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def _held(banks: list[Bank], classes: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """(section, class that holds it, position in the stream) of every cache member of the classes."""
    return [
        (name, int(label), int(position))
        for bank in banks
        for name, span in bank.sections.items()
        for label in classes
        for position in bank.sources[label, span]
        if position >= 0
    ]


def _visual(banks: list[Bank], classes: tuple[int, ...]) -> NDArray[np.float32]:
    """(classes, d): the mean of what speaks for each class."""
    total, count = np.zeros((len(classes), banks[0].features.shape[-1]), np.float32), np.zeros(len(classes), np.float32)
    for bank in banks:
        for name, span in bank.sections.items():
            if name != "negative":
                occupied = bank.occupied[list(classes), span]
                total += np.einsum("cs,csd->cd", occupied, bank.features[list(classes), span])
                count += occupied.sum(axis=1)
    return (total / np.maximum(count, 1)[:, None]).astype(np.float32)


def _mark(section: str) -> str:
    return {"align": "s", "negative": "X"}.get(section, "o")


def _projected(
    store: FeatureStore,
    rows: NDArray[np.int64],
    visual: NDArray[np.float32],
    text: NDArray[np.float32],
    projection: str,
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Images and prototypes in two dimensions. Texts are moved onto the images' mean: a gap lies between the two."""
    features = store.rows(rows)[:, 0].astype(np.float32)
    told = text - text.mean(axis=0) + features.mean(axis=0)
    everything = np.concatenate([features, told, visual])
    if projection == "pca":
        from sklearn.decomposition import PCA

        flat = PCA(2, random_state=0).fit(features).transform(everything)
    elif projection == "tsne":
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits

        with threadpool_limits(
            1
        ):  # its threads wait for each other busily: on a busy machine, hundreds of times slower
            nearby = min(30, len(everything) // 4)
            flat = TSNE(2, init="pca", perplexity=nearby, random_state=0).fit_transform(everything)
    else:
        raise TrimtabError(f"There is no projection {projection!r}; choose pca or tsne.")
    cut = len(features)
    return flat[:cut], {"text": flat[cut : cut + len(text)], "visual": flat[cut + len(text) :]}


def _axis(projection: str) -> str:
    how = {"pca": "principal components", "tsne": "t-SNE"}[projection]
    return f"{how}; texts shifted onto the images' mean"
