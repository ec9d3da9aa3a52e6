"""Encode a data set once: images in, a feature store out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
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
from trimtab.features.contexts import keep_context
from trimtab.features.manifest import JPEG_SIDE, StoreInfo
from trimtab.features.store import FeatureStore
from trimtab.features.writer import FeatureWriter
from trimtab.images.generated import ViewSource, further_views
from trimtab.images.loader import ViewBatch, ViewLoader
from trimtab.images.views import check_view_options, enough_side
from trimtab.prompts import templates_for, text_prototypes

Cupl = Mapping[str, Sequence[str]]


def encode_images(
    image_set: ImageSet,
    encoder: Encoder,
    *,
    out: str | Path,
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
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Write the features of `views` views of every image, and the classes' text prototypes, to the folder `out`.

    Started again on the same folder it continues where it was stopped, however it was stopped; on a finished store it
    only opens it. Images that cannot be read get no row; the store's `skipped` names them with the reason.
    `templates` are the encoder's or the data set's own unless given; `limit` takes that many images, drawn by the seed,
    in their order; `batch` is in views. Neither `batch` nor `workers` changes a pixel. `progress` is called with
    the images done and their total, before the first batch and after each.

    `context`, a file of `trimtab learn` or of CoOp's program, takes the place of templates; the store says whose labels
    it was trained on, and keeps it, so that prompt tuning starts from it. `generated` gives further views of an image
    (`trimtab.images.generated`).
    """
    check_view_options(views, seed)
    arguments.switch("augmix", augmix)
    arguments.callback("progress", progress)
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
    further = generated_views if generated is not None else 0
    load = no_larger_than(image_set.load, enough_side(encoder.input_size))
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
    with FeatureWriter(out, info, text) as writer:
        loader = ViewLoader(
            load,
            chosen[writer.next_image :].tolist(),
            size=encoder.input_size,
            views=views,
            seed=seed,
            augmix=augmix,
            generated=_generated_of(image_set, generated, further),
            generated_views=further,
            batch=batch,
            workers=workers,
        )
        with closing(iter(loader)) as batches:
            if progress:
                progress(writer.next_image, len(chosen))
            for loaded in batches:
                _write(writer, encoder, loaded, chosen)
                if progress:
                    progress(writer.next_image, len(chosen))
        writer.finish()
    if context is not None:
        keep_context(Path(out).expanduser(), context)
    return FeatureStore.open(out)


def zero_shot_labels(store: FeatureStore) -> NDArray[np.int64]:
    """(N,) the class whose text is nearest to each image's plain view."""
    text = store.task().text_prototypes
    nearest = [np.argmax(block[:, 0].astype(np.float32) @ text.T, axis=1) for block in store.blocks()]
    return np.concatenate(nearest)


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
    image_set: ImageSet, source: ViewSource | None, count: int
) -> Callable[[int, NDArray[np.uint8]], Sequence[NDArray[np.uint8]]] | None:
    if source is None:
        return None
    return lambda index, image: further_views(source, str(image_set.ids[index]), image, count)


def _preprocessing(size: int, views: int, augmix: bool, generated: int, *, smaller: bool) -> dict[str, Any]:
    """All that decides the pixels besides the image and the seed; a change of the rules must change it.

    It is part of every store's fingerprint: another spelling would make the same features a different store.
    """
    described: dict[str, Any] = {"size": size, "plain": "shorter side resized (bicubic), centre square"}
    if smaller:
        described[JPEG_SIDE] = enough_side(
            size
        )  # decoded at 1/2, 1/4 or 1/8 where the shorter side keeps so many pixels
    if views > 1:
        described["random"] = (
            "random resized crop (area 0.08 to 1, aspect 3/4 to 4/3, bilinear), mirrored half the time, "
            "drawn by the image's content"
        )
        described["augmix"] = augmix
    if generated:
        described["generated"] = f"{generated} generated views, each as the plain one"
    return described


def _write(writer: FeatureWriter, encoder: Encoder, loaded: ViewBatch, chosen: NDArray[np.int64]) -> None:
    images, views = loaded.pixels.shape[:2]
    features = np.empty((0, views, encoder.dim), np.float32)
    if images:
        features = encoder.encode_images(loaded.pixels.reshape(images * views, *loaded.pixels.shape[2:]))
        features = features.reshape(images, views, encoder.dim)
    positions = np.searchsorted(chosen, loaded.indices)
    unreadable = [(int(np.searchsorted(chosen, index)), reason) for index, reason in loaded.unreadable]
    writer.add(positions, features, unreadable)
