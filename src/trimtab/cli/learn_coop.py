"""`trimtab learn coop`: a prompt's context from a few labeled images of each class."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Device, Encoder, Precision, Root, choices


def learn_coop(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Labeled images: a data set's name, a folder, or a feature store.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for what is learned.")] = Path("context.safetensors"),
    encoder: Encoder = "lite",
    shots: Annotated[int, typer.Option(min=1, help="Labeled images per class.")] = 16,
    words: Annotated[str, typer.Option(help="Words that the context starts from, such as 'a photo of a'.")] = "",
    length: Annotated[int, typer.Option(min=1, help="Vectors of the context, where no words are given.")] = 16,
    position: Annotated[
        str,
        typer.Option(
            help="Where the class name stands: end, middle or front.", autocompletion=choices("end", "middle", "front")
        ),
    ] = "end",
    class_specific: Annotated[
        bool, typer.Option("--class-specific", help="A context of its own for every class; it serves no others.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Rounds; 50, 100 or 200 by the number of shots if not given.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 2e-3,
    batch: Annotated[int, typer.Option(min=1, help="Images per step.")] = 32,
    views: Annotated[int, typer.Option(min=1, help="Views of each image to draw from; 1 is the plain image only.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the shots, the start and the order.")] = 0,
    root: Root = None,
    device: Device = "cpu",
    precision: Precision = "fp32",
) -> None:
    r"""Learn the words around the class names (CoOp).

    THE LABELS OF DATA ARE USED: every table that uses the file says so. It is accepted by --context of other commands.
    If it is stopped, the same command continues where it was.

    \b
    Examples:
      trimtab learn coop photos/ -e lite --shots 8 -o context.safetensors
      trimtab encode other/ -e lite --context context.safetensors
    """
    from trimtab.cli.progress import progress_of
    from trimtab.encoders import load_encoder
    from trimtab.encoders.prompted.context_files import POSITIONS
    from trimtab.errors import TrimtabError
    from trimtab.features import FeatureStore
    from trimtab.features.manifest import MANIFEST
    from trimtab.learn.coop import CoOp
    from trimtab.learn.run import Shape, learn_from_images, learn_from_store

    if position not in POSITIONS:
        raise TrimtabError(f"--position must be one of {', '.join(POSITIONS)}, not {position!r}.")
    if out.suffix != ".safetensors":
        raise TrimtabError(f"A context is written as .safetensors; give --out such an ending, not {out.name!r}.")
    recipe = CoOp(shots=shots, epochs=epochs, learning_rate=rate, batch=batch, seed=seed)
    shape = Shape(words, length, position, class_specific)
    place = out.expanduser()
    if (Path(data) / MANIFEST).is_file():
        store = FeatureStore.open(data)
        chosen = load_encoder(store.info.encoder, device=device, precision=precision)
        with progress_of("learn", "epochs") as tell:
            learned = learn_from_store(recipe, shape, store, chosen, place, progress=tell)
    else:
        from trimtab.data.catalog import load_dataset

        images = load_dataset(data, root)
        chosen = load_encoder(encoder, device=device, precision=precision)
        with progress_of("learn", "epochs") as tell:
            learned = learn_from_images(recipe, shape, images, chosen, place, views=views, progress=tell)
    print(f"{place}: {learned}")
