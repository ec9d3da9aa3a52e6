"""`trimtab learn maple`: MaPLe's prompts from a few labeled images of each class."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Device, Encoder, Root


def learn_maple(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A labeled data set's name, or a folder of classes.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the prompts.")] = Path("maple.safetensors"),
    encoder: Encoder = "openai:ViT-B/16",
    shots: Annotated[int, typer.Option(min=1, help="Labeled images per class.")] = 16,
    vectors: Annotated[int, typer.Option(min=1, help="Prompt vectors at each place.")] = 2,
    depth: Annotated[int, typer.Option(min=1, help="Places: the input and so many blocks, less one.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the images.")] = 2,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 2.6e-3,
    batch: Annotated[int, typer.Option(min=1, help="Images per step.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Draws the images, their crops and the first values.")] = 1,
    root: Root = None,
    device: Device = "cpu",
) -> None:
    r"""Learn coupled prompts for both towers of a CLIP.

    THE LABELS OF DATA ARE USED. The file is then an encoder: maple:<file>+<encoder>. The defaults are the authors'
    for prompts that are taken to other data sets. If it is stopped, the same command continues where it was.

    \b
    Examples:
      trimtab learn maple photos/ -e openai:ViT-B/16 -o m.safetensors
    """
    from trimtab.cli.progress import progress_of
    from trimtab.data.catalog import load_dataset
    from trimtab.encoders import load_encoder
    from trimtab.learn.maple import MapleSettings, learn_maple

    images = load_dataset(data, root)
    chosen = load_encoder(encoder, device=device)
    settings = MapleSettings(shots, vectors, depth, epochs, rate, batch, seed)
    with progress_of("learn", "steps") as tell:
        learn_maple(
            images, chosen, out, settings, progress=lambda done, total, loss: tell(done, total, f"loss {loss:.3f}")
        )
    print(f"{out}: prompts learned from {shots} labeled images per class of {images.name}; use maple:{out}+{encoder}")
