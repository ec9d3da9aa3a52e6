"""`trimtab encode`: a data set in, a feature store out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.counting import counted
from trimtab.cli.options import (
    Address,
    Context,
    Cupl,
    Device,
    Encoder,
    Engine,
    Labels,
    LabelsFile,
    Precision,
    Root,
    Views,
    choices,
    on_ray,
)
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.data.base import ImageSet
    from trimtab.encoders import Encoder as TwoTowers
    from trimtab.features import FeatureStore

SKIPPED_SHOWN = 20


def encode(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A data set's name, a folder or URL of images, or features to import.")
    ],
    out: Annotated[str | None, typer.Option("--out", "-o", help="Folder or URL for the features.")] = None,
    encoder: Encoder = "lite",
    views: Views = 1,
    root: Root = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many images, drawn by --seed.")] = None,
    templates: Annotated[
        str | None, typer.Option(help="Template set, template or file; the data set's own if not given.")
    ] = None,
    cupl: Cupl = None,
    context: Context = None,
    labels: Labels = None,
    labels_file: LabelsFile = None,
    augmix: Annotated[bool, typer.Option("--augmix", help="Apply AugMix to the random crops.")] = False,
    generated: Annotated[
        Path | None, typer.Option(help="Folder of generated views, <stem>_<i>.<ext>; they follow the crops.")
    ] = None,
    generated_views: Annotated[int, typer.Option(min=1, help="How many of them each image has.")] = 63,
    seed: Annotated[int, typer.Option(help="Seed of the random crops and of what --limit draws.")] = 0,
    dtype: Annotated[
        str, typer.Option(help="float16 or float32.", autocompletion=choices("float16", "float32"))
    ] = "float16",
    batch: Annotated[int, typer.Option(min=1, help="Views per call of the encoder.")] = 64,
    device: Device = "cpu",
    precision: Precision = "fp32",
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every byte of the store with its checksum.")
    ] = False,
    engine: Engine = "local",
    address: Address = None,
    shard: Annotated[
        str | None, typer.Option(help="Make only part i of n of the store, as in 3/16: one of n jobs.")
    ] = None,
    shard_images: Annotated[
        int | None, typer.Option(min=1, help="Images per file of the store; chosen by size if not given.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Also write the features as Parquet files into this folder.")
    ] = None,
) -> None:
    r"""Encode a data set once; every method then runs in seconds.

    If it is stopped or killed, the same command continues where it was. A finished store is only checked for being
    the one that is asked for; with --verify, all of it is read. DATA may also be a feature store to verify, or an .npz
    file of features or a folder of clip-retrieval to import. Images without labels need --labels or --labels-file.

    \b
    Examples:
      trimtab encode cifar10 -o features/cifar10
      trimtab encode photos/ -e hf:/models/clip --views 64
      trimtab encode s3://my/photos -o s3://my/features --engine ray
      trimtab encode photos/ -o /shared/features --shard 3/16
      trimtab encode features/cifar10 --verify
    """
    from trimtab.encoders import load_encoder
    from trimtab.features import FeatureStore, import_npz
    from trimtab.features.clip_retrieval import import_clip_retrieval, is_clip_retrieval

    store: FeatureStore | None
    if (verify or parquet) and _is_store(data):
        store = FeatureStore.open(data)
    elif data.endswith(".npz"):
        about_images = {"--views": views != 1, "--limit": limit, "--templates": templates, "--cupl": cupl}
        about_images |= {"--labels": labels, "--labels-file": labels_file, "--augmix": augmix}
        _refuse_for_features(data, [option for option, given in about_images.items() if given])
        store = import_npz(data, out, dtype=dtype)
    elif is_clip_retrieval(data):
        about_images = {"--views": views != 1, "--limit": limit, "--augmix": augmix, "--context": context}
        _refuse_for_features(data, [option for option, given in about_images.items() if given])
        store = import_clip_retrieval(
            data,
            _labels_for_features(data, labels, labels_file),
            load_encoder(encoder, device=device, precision=precision),
            Path("features", Path(data).name) if out is None else out,
            templates=templates,
            cupl=cupl,
            dtype=dtype,
            shard_images=shard_images,
        )
    else:
        from trimtab.images.generated import GeneratedFolder

        image_set = _image_set(data, root, labels, labels_file)
        named = Path("features", f"{image_set.name}-{_slug(encoder)}-{views}")
        place = named if out is None else out
        options: dict[str, Any] = {
            "views": views,
            "seed": seed,
            "augmix": augmix,
            "dtype": dtype,
            "templates": templates,
            "cupl": cupl,
            "context": context,
            "generated": GeneratedFolder(generated) if generated else None,
            "generated_views": generated_views,
            "limit": limit,
            "batch": batch,
        }
        on_workers = {"device": device, "precision": precision, "address": address}
        ray = on_workers if on_ray(engine, address) else None
        chosen = load_encoder(encoder, device=device, precision=precision)
        store = _encoded(image_set, chosen, place, shard_images, shard, ray, options)
        if store is None:
            print(f"{place}: part {shard} is made; the last of the jobs to end finishes the store")
            return
    if parquet is not None:
        from trimtab.features.parquet import write_parquet

        write_parquet(store, parquet)
    _report(store, verify)


def _encoded(
    image_set: "ImageSet",
    encoder: "TwoTowers",
    out: str | Path,
    shard_images: int | None,
    shard: str | None,
    ray: dict[str, Any] | None,
    options: dict[str, Any],
) -> "FeatureStore | None":
    """The store, made on a cluster, in part by one of many jobs (None: not the last), or here."""
    from trimtab.cli.progress import progress_of
    from trimtab.features.encode import encode_images
    from trimtab.features.encode_shards import encode_shards, parse_shard
    from trimtab.features.encoding import plan_encoding

    if ray is not None and shard is not None:
        raise TrimtabError("--shard is for jobs without a cluster; with --engine ray leave it out.")
    only = None if shard is None else parse_shard(shard)
    with progress_of("encode", "images") as tell:
        if ray is not None:
            from trimtab.cluster.encode import encode_on_ray

            plan = plan_encoding(image_set, encoder, **options)
            return encode_on_ray(plan, encoder, out, shard_images=shard_images, progress=tell, **ray)
        if only is not None:
            plan = plan_encoding(image_set, encoder, **options)
            return encode_shards(plan, encoder, out, shard_images=shard_images, only=only, progress=tell)
        return encode_images(image_set, encoder, out=out, shard_images=shard_images, progress=tell, **options)


def _is_store(data: str) -> bool:
    from trimtab.features.manifest import MANIFEST
    from trimtab.storage import folder_at, is_url

    return MANIFEST in folder_at("data", data).sizes() if is_url(data) else (Path(data) / MANIFEST).is_file()


def _labels_for_features(data: str, labels: str | None, labels_file: Path | None) -> tuple[str, ...]:
    from trimtab.cli.labels import given_labels

    names = given_labels(labels, labels_file)
    if names is None:
        raise TrimtabError(f"{data} holds no labels; say what its images may show, with --labels or --labels-file.")
    return names


def _refuse_for_features(data: str, options: list[str]) -> None:
    if options:
        raise TrimtabError(f"{data} holds features that are made already; give {', '.join(options)} only with images.")


def _image_set(data: str, root: Path | None, labels: str | None, labels_file: Path | None) -> "ImageSet":
    from dataclasses import replace

    from trimtab.cli.labels import given_labels
    from trimtab.data.catalog import FREE_SETS, find_entry, load_dataset

    known = find_entry(data) is not None or data.lower() in FREE_SETS
    is_path = bool(data) and not known and "://" not in data and Path(data).expanduser().exists()
    image_set = load_dataset(f"folder:{data}" if is_path else data, root)
    names = given_labels(labels, labels_file)
    if names is None:
        if not image_set.class_names:
            raise TrimtabError(f"{data} has no labels; say what its images may show, with --labels or --labels-file.")
        return image_set
    if image_set.class_names:
        raise TrimtabError(f"{data} has classes of its own; --labels is for images without labels.")
    return replace(image_set, class_names=names)


def _slug(encoder: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in encoder).strip("-")


def _report(store: "FeatureStore", verify: bool) -> None:
    from rich.console import Console

    from trimtab.data.class_order import check_class_order
    from trimtab.features.encode import zero_shot_labels

    console = Console(stderr=True, highlight=False)
    if store.skipped:
        console.print(f"Left out, because they could not be read: {len(store.skipped)}", soft_wrap=True)
        for name, reason in store.skipped[:SKIPPED_SHOWN]:
            console.print(f"  {reason if name in reason else f'{name}: {reason}'}", soft_wrap=True, markup=False)
        if len(store.skipped) > SKIPPED_SHOWN:
            console.print(f"  ... the others are listed in {store.path}/manifest.json", soft_wrap=True)
    if verify:
        store.verify()
        console.print("All checksums match.")
    print(
        f"{store.path}: {counted(len(store), 'image')} x {counted(store.views, 'view')} x {store.dim} "
        f"({store.info.dtype}), {len(store.class_names)} classes, {store.info.encoder}"
    )
    if (store.labels >= 0).any():
        found = check_class_order(store.labels, zero_shot_labels(store), store.class_names)
        print(f"zero-shot accuracy of the plain view: {found.accuracy:.2%} (chance {found.chance:.2%})")
