"""What is to be encoded and how: all that a store's features depend on, apart from where they are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.base import ImageSet, drawn, no_larger_than
from trimtab.encoders.base import Encoder
from trimtab.encoders.prompted import text_tower
from trimtab.encoders.prompted.context_files import read_context
from trimtab.errors import TrimtabError
from trimtab.features.manifest import JPEG_SIDE, StoreInfo
from trimtab.images.generated import ViewSource, further_views
from trimtab.images.loader import ViewBatch, ViewLoader
from trimtab.images.views import check_view_options, enough_side
from trimtab.prompts import templates_for, text_prototypes

Cupl = Mapping[str, Sequence[str]]
Load = Callable[[int], NDArray[np.uint8]]
Found = tuple[NDArray[np.int64], NDArray[np.float32], list[tuple[int, str]]]  # positions, features, (position, reason)


@dataclass(frozen=True)
class ViewOptions:
    """How an image becomes views."""

    size: int
    views: int
    seed: int
    augmix: bool
    batch: int
    workers: int | None
    generated: ViewSource | None = None
    generated_views: int = 0


@dataclass(frozen=True, eq=False)
class Encoding:
    """A plan: the images `chosen` of a set, in order, become the store that `info` describes."""

    image_set: ImageSet
    chosen: NDArray[np.int64]
    info: StoreInfo
    text: NDArray[np.float32]
    options: ViewOptions
    context: str | Path | None = None

    def features(self, encoder: Encoder, first: int, per_shard: int) -> Iterator[Found]:
        """The features of the images from position `first` on, batch by batch.

        No batch crosses the end of a shard. An encoder's arithmetic may depend on the batch in the last bit, and a
        shard must not depend on where it was made, on one machine with its neighbors or on another by itself.
        """
        start = first
        while start < len(self.chosen):
            stop = min((start // per_shard + 1) * per_shard, len(self.chosen))
            indices = self.chosen[start:stop].tolist()
            yield from encoded(self.image_set.load, indices, start, self.image_set.ids, self.options, encoder)
            start = stop


def encoded(
    load: Load, indices: Sequence[int], first: int, ids: Sequence[str], options: ViewOptions, encoder: Encoder
) -> Iterator[Found]:
    """Features of the images `load(i)` of the rising `indices`; the first of them is at position `first` of the store.

    `ids[i]` names image i for those whose further views are generated.
    """
    loader = ViewLoader(
        load,
        indices,
        size=options.size,
        views=options.views,
        seed=options.seed,
        augmix=options.augmix,
        generated=_generated_of(ids, options.generated, options.generated_views),
        generated_views=options.generated_views,
        batch=options.batch,
        workers=options.workers,
    )
    with closing(iter(loader)) as batches:
        for loaded in batches:
            yield _features_of(loaded, encoder, np.asarray(indices), first)


def _features_of(loaded: ViewBatch, encoder: Encoder, indices: NDArray[np.int64], first: int) -> Found:
    images, views = loaded.pixels.shape[:2]
    features: NDArray[np.float32] = np.empty((0, views, encoder.dim), np.float32)
    if images:
        rows = encoder.encode_images(loaded.pixels.reshape(images * views, *loaded.pixels.shape[2:]))
        features = rows.reshape(images, views, encoder.dim)
    positions = first + np.searchsorted(indices, loaded.indices)
    unreadable = [(first + int(np.searchsorted(indices, index)), reason) for index, reason in loaded.unreadable]
    return positions, features, unreadable


def plan_encoding(
    image_set: ImageSet,
    encoder: Encoder,
    *,
    views: int = 1,
    seed: int = 0,
    augmix: bool = False,
    dtype: str = "float16",
    templates: str | Sequence[str] | None = None,
    cupl: Cupl | Path | str | None = None,
    context: str | Path | None = None,
    generated: ViewSource | None = None,
    generated_views: int = 63,
    limit: int | None = None,
    batch: int = 64,
    workers: int | None = None,
) -> Encoding:
    """Encode the classes' texts, and describe the store that the images will make; see `encode_images`."""
    check_view_options(views, seed)
    arguments.switch("augmix", augmix)
    arguments.instance("image_set", image_set, ImageSet, "an ImageSet, as trimtab.data.load_dataset gives")
    arguments.instance("encoder", encoder, Encoder, "an encoder, as trimtab.load_encoder gives")
    if generated is not None and generated_views < 1:
        raise TrimtabError(f"generated_views must be 1 or more, not {generated_views}.")
    if context is not None and (templates is not None or cupl is not None):
        raise TrimtabError("A learned context takes the place of templates and CuPL; give one of them only.")
    chosen = drawn(image_set, limit, seed)
    if len(image_set.class_names) < 2:
        raise TrimtabError(f"{image_set.name} comes without class names; say what the images may show.")
    text, prompts = _text(image_set, encoder, templates, cupl, context)
    load = no_larger_than(image_set.load, enough_side(encoder.input_size))
    further = generated_views if generated is not None else 0
    info = StoreInfo(
        dataset=image_set.name,
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        preprocessing=_preprocessing(encoder.input_size, views, augmix, further, smaller=load is not image_set.load),
        prompts=prompts,
        seed=seed,
        views=views + further,
        dim=encoder.dim,
        dtype=dtype,
        logit_scale=float(encoder.logit_scale),
        class_names=tuple(image_set.class_names),
        labels=tuple(int(image_set.labels[i]) for i in chosen),
        ids=tuple(str(image_set.ids[i]) for i in chosen),
        domains=None if image_set.domains is None else tuple(str(image_set.domains[i]) for i in chosen),
    )
    options = ViewOptions(encoder.input_size, views, seed, augmix, batch, workers, generated, further)
    return Encoding(replace(image_set, load=load), chosen, info, text, options, context)


def _text(
    image_set: ImageSet,
    encoder: Encoder,
    templates: str | Sequence[str] | None,
    cupl: Cupl | Path | str | None,
    context: str | Path | None,
) -> tuple[NDArray[np.float32], str]:
    """The text prototypes, and in one line where they come from."""
    if context is not None:
        tower = text_tower(encoder, image_set.class_names, context=context)
        return tower.features(tower.start), str(read_context(context))
    own = getattr(encoder, "template", None)  # of an encoder whose prompts stand in the place of certain words
    chosen = templates if templates is not None else own or image_set.templates
    patterns = templates_for(chosen, image_set.name)
    text = text_prototypes(encoder, image_set.class_names, patterns, cupl)
    said = " | ".join(patterns) + (" + CuPL" if cupl is not None else "")
    return text, f"{said}, {encoder.learned_prompts}" if hasattr(encoder, "learned_prompts") else said


def _generated_of(
    ids: Sequence[str], source: ViewSource | None, count: int
) -> Callable[[int, NDArray[np.uint8]], Sequence[NDArray[np.uint8]]] | None:
    if source is None:
        return None
    return lambda index, image: further_views(source, str(ids[index]), image, count)


def _preprocessing(size: int, views: int, augmix: bool, generated: int, *, smaller: bool) -> dict[str, Any]:
    """All that decides the pixels besides the image and the seed; a change of the rules must change it.

    It is part of every store's fingerprint: another spelling would make the same features a different store.
    """
    described: dict[str, Any] = {"size": size, "plain": "shorter side resized (bicubic), centre square"}
    if smaller:  # decoded at 1/2, 1/4 or 1/8 where the shorter side keeps so many pixels
        described[JPEG_SIDE] = enough_side(size)
    if views > 1:
        described["random"] = (
            "random resized crop (area 0.08 to 1, aspect 3/4 to 4/3, bilinear), mirrored half the time, "
            "drawn by the image's content"
        )
        described["augmix"] = augmix
    if generated:
        described["generated"] = f"{generated} generated views, each as the plain one"
    return described
