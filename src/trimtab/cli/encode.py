"""`trimtab encode`: a data set in, a feature store out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from trimtab.data.base import ImageSet
    from trimtab.features import FeatureStore

SKIPPED_SHOWN = 20


def encode(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder of images, or an .npz file of features.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the features.")] = None,
    encoder: Annotated[str, typer.Option("--encoder", "-e", help="Encoder, such as lite or hf:<folder>.")] = "lite",
    views: Annotated[int, typer.Option(min=1, help="Views per image: the plain one and random crops.")] = 1,
    root: Annotated[Path | None, typer.Option(help="Folder that holds your data sets.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many images, drawn by the seed.")] = None,
    templates: Annotated[
        str | None, typer.Option(help="Template set, template or file; the set's own if left out.")
    ] = None,
    cupl: Annotated[Path | None, typer.Option(help="CuPL file: JSON of class name -> sentences.")] = None,
    labels: Annotated[str | None, typer.Option(help="Class names for unlabeled images: cat,dog,...")] = None,
    labels_file: Annotated[Path | None, typer.Option(help="The same from a file, one a line.")] = None,
    augmix: Annotated[bool, typer.Option("--augmix", help="Apply AugMix to the random crops.")] = False,
    seed: Annotated[int, typer.Option(help="Decides the random crops and what --limit takes.")] = 0,
    dtype: Annotated[str, typer.Option(help="float16 or float32.")] = "float16",
    batch: Annotated[int, typer.Option(min=1, help="Views per call of the encoder.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:<n> or mps.")] = "cpu",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or bf16.")] = "fp32",
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every byte of the store with its checksum.")
    ] = False,
) -> None:
    """Encode a data set once, so that every method then runs on it in seconds.

    Stopped or killed, the same command goes on where it was. On a finished store it only checks that it fits; with
    --verify it reads it all. DATA may also be a feature store to verify, or an .npz file of features to take over.
    """
    from trimtab.features import FeatureStore, import_npz
    from trimtab.features.manifest import MANIFEST

    if verify and (Path(data) / MANIFEST).is_file():
        store = FeatureStore.open(data)
    elif data.endswith(".npz"):
        store = import_npz(data, out, dtype=dtype)
    else:
        from trimtab.encoders import load_encoder
        from trimtab.features.encode import encode_images

        image_set = _image_set(data, root, labels, labels_file)
        chosen = load_encoder(encoder, device=device, precision=precision)
        store = encode_images(
            image_set,
            chosen,
            out=out or Path("features", f"{image_set.name}-{_slug(encoder)}-{views}"),
            views=views,
            seed=seed,
            augmix=augmix,
            dtype=dtype,
            templates=templates,
            cupl=cupl,
            limit=limit,
            batch=batch,
            progress=True,
        )
    _report(store, verify)


def _image_set(data: str, root: Path | None, labels: str | None, labels_file: Path | None) -> "ImageSet":
    from dataclasses import replace

    from trimtab.cli.labels import given_labels
    from trimtab.data.catalog import FREE_SETS, find_entry, load_dataset
    from trimtab.errors import TrimtabError

    known = find_entry(data) is not None or data.lower() in FREE_SETS
    is_path = not known and Path(data).expanduser().exists()
    image_set = load_dataset(f"folder:{data}" if is_path else data, root)
    names = given_labels(labels, labels_file)
    if names is None:
        if not image_set.class_names:
            raise TrimtabError(f"{data} has no labels; say what its images may show with --labels or --labels-file.")
        return image_set
    if image_set.class_names:
        raise TrimtabError(f"{data} has classes of its own; --labels is for images without labels.")
    return replace(image_set, class_names=names)


def _slug(encoder: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in encoder).strip("-")


def _report(store: "FeatureStore", verify: bool) -> None:
    from trimtab.data.class_order import check_class_order
    from trimtab.features.encode import zero_shot_labels

    console = Console(stderr=True, highlight=False)
    if store.skipped:
        console.print(f"Left out, because they could not be read: {len(store.skipped)}", soft_wrap=True)
        for name, reason in store.skipped[:SKIPPED_SHOWN]:
            console.print(f"  {reason if name in reason else f'{name}: {reason}'}", soft_wrap=True, markup=False)
        if len(store.skipped) > SKIPPED_SHOWN:
            console.print(f"  ... the others are listed in {store.path / 'manifest.json'}", soft_wrap=True)
    if verify:
        store.verify()
        console.print("Every checksum is right.")
    print(
        f"{store.path}: {len(store):,} images x {store.views} views x {store.dim} ({store.info.dtype}), "
        f"{len(store.class_names)} classes, {store.info.encoder}"
    )
    if (store.labels >= 0).any():
        found = check_class_order(store.labels, zero_shot_labels(store), store.class_names)
        print(f"zero-shot accuracy of the plain view: {found.accuracy:.2%} (chance {found.chance:.2%})")
