"""Encode a data set once: images in, a feature store out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.base import ImageSet
from trimtab.encoders.base import Encoder
from trimtab.features.contexts import keep_context
from trimtab.features.encode_shards import encode_shards
from trimtab.features.encoding import Cupl, plan_encoding
from trimtab.features.store import FeatureStore
from trimtab.features.writer import FeatureWriter
from trimtab.images.generated import ViewSource
from trimtab.storage import is_url


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
    shard_images: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Write the features of `views` views of every image, and the classes' text prototypes, to the folder `out`.

    Started again on the same folder it continues where it was stopped, however it was stopped; on a finished store it
    only opens it. Images that cannot be read get no row; the store's `skipped` names them with the reason.
    `templates` are the encoder's or the data set's own unless given; `limit` takes that many images, drawn by the seed,
    in their order; `batch` is in views. Neither `batch` nor `workers` changes a pixel. `progress` is called with
    the images done and their total, before the first batch and after each. `shard_images` fixes how many images make a
    file of the store, which is chosen by size else.

    `context`, a file of `trimtab learn` or of CoOp's program, takes the place of templates; the store says whose labels
    it was trained on, and keeps it, so that prompt tuning starts from it. `generated` gives further views of an image
    (`trimtab.images.generated`).

    `out` may be a URL that fsspec knows (s3://bucket/features); it is then written a whole shard at a time.
    """
    arguments.callback("progress", progress)
    encoding = plan_encoding(
        image_set,
        encoder,
        views=views,
        seed=seed,
        augmix=augmix,
        dtype=dtype,
        templates=templates,
        cupl=cupl,
        context=context,
        generated=generated,
        generated_views=generated_views,
        limit=limit,
        batch=batch,
        workers=workers,
    )
    if is_url(out):
        store = encode_shards(encoding, encoder, out, shard_images=shard_images, progress=progress)
        assert store is not None  # all shards were made here
        return store
    total = len(encoding.chosen)
    with FeatureWriter(out, encoding.info, encoding.text, shard_images=shard_images) as writer:
        if progress:
            progress(writer.next_image, total)
        for positions, features, unreadable in encoding.features(encoder, writer.next_image, writer.images_per_shard):
            writer.add(positions, features, unreadable)
            if progress:
                progress(writer.next_image, total)
        writer.finish()
    if context is not None:
        keep_context(Path(out).expanduser(), context)
    return FeatureStore.open(out)


def zero_shot_labels(store: FeatureStore) -> NDArray[np.int64]:
    """(N,) the class whose text is nearest to each image's plain view."""
    text = store.task().text_prototypes
    nearest = [np.argmax(block[:, 0].astype(np.float32) @ text.T, axis=1) for block in store.blocks()]
    return np.concatenate(nearest)
