"""`trimtab source-stats`: the token statistics of source data, which PromptAlign pulls towards."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Device, Encoder, Root


def source_stats(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a folder of images.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the statistics.")] = Path("stats.safetensors"),
    encoder: Encoder = "",
    root: Root = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many images, drawn by --seed.")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="How many of the first blocks are covered.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of what --limit draws.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 32,
    device: Device = "cpu",
) -> None:
    r"""Measure the tokens of the data that prompts were learned on.

    PromptAlign needs them. The encoder is a maple:<file>+<encoder>; labels are not looked at. If it is stopped, the
    same command continues where it was.

    \b
    Examples:
      trimtab source-stats photos/ -e maple:m.safetensors+openai:ViT-B/16
    """
    from trimtab.cli.progress import progress_of
    from trimtab.data.catalog import load_dataset
    from trimtab.encoders import load_encoder
    from trimtab.errors import TrimtabError
    from trimtab.learn.source_statistics import fit_source_stats

    if not encoder:
        raise TrimtabError("Say which prompts the statistics are for: --encoder maple:<file>+<encoder>.")
    images = load_dataset(data, root)
    chosen = load_encoder(encoder, device=device)
    with progress_of("source-stats", "images") as tell:
        found = fit_source_stats(
            images,
            chosen,
            out,
            blocks=blocks,
            limit=limit,
            seed=seed,
            batch=batch,
            progress=tell,
        )
    print(f"{out}: {found.images:,} images of {found.data}, the first {found.blocks} of the blocks of {chosen.name}")
