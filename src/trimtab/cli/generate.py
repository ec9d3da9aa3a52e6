"""`trimtab generate`: variations of images, drawn by a diffusion pipeline, for DiffTPT."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Device, Precision, Root, choices

SHOWN = 20


def generate(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a folder of images.")],
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", help="Folder of a diffusion pipeline (diffusers).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")] = Path("variations"),
    views: Annotated[int, typer.Option(min=1, help="Pictures of each image.")] = 63,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the diffusion.")] = 50,
    guidance: Annotated[float, typer.Option(min=0, help="How closely a picture follows what it is drawn from.")] = 3.0,
    strength: Annotated[
        float | None, typer.Option(min=0, max=1, help="How much of the image is given up, where the pipeline asks.")
    ] = None,
    words: Annotated[str | None, typer.Option(help="Words to draw by, where the pipeline takes them.")] = None,
    root: Root = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many images, drawn by --seed.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pictures and of what --limit draws.")] = 0,
    extension: Annotated[str, typer.Option("--ext", help="png or jpg.", autocompletion=choices("png", "jpg"))] = "png",
    device: Device = "cpu",
    precision: Precision = "fp32",
) -> None:
    r"""Draw variations of images with a diffusion pipeline.

    They become <stem>_<i>.<ext> in the folder, which `trimtab encode --generated` reads; variations.json beside them
    says how they were drawn. If it is stopped, the same command draws what is missing. Labels are not looked at.

    \b
    Examples:
      trimtab generate photos/ -p sd-image-variations -o variations
      trimtab encode photos/ --views 65 --generated variations
    """
    from trimtab.arguments import word
    from trimtab.cli.output import folder_for
    from trimtab.cli.progress import progress_of
    from trimtab.data.catalog import load_dataset
    from trimtab.data.generate import FORMATS, generate_variations
    from trimtab.errors import TrimtabError
    from trimtab.files import say

    folder_for(out, "the pictures")
    word("--ext", extension, tuple(FORMATS))
    images = load_dataset(data, root)
    try:
        from trimtab.encoders.diffusion import Drawing, VariationPipeline
    except ImportError as error:
        raise TrimtabError(f"Drawing pictures needs {error.name}; run: pip install 'trimtab[generate]'") from error
    drawing_by = VariationPipeline(
        pipeline, Drawing(steps, guidance, strength, words), device=device, precision=precision
    )
    with progress_of("generate", "pictures") as tell:
        made = generate_variations(
            images, drawing_by, out, views=views, seed=seed, extension=extension, limit=limit, progress=tell
        )
    for identity, reason in made.left_out[:SHOWN]:
        say(reason if identity in reason else f"{identity}: {reason}")
    if len(made.left_out) > SHOWN:
        say(f"... and {len(made.left_out) - SHOWN} more.")
    before = f" ({made.there_before:,} were there)" if made.there_before else ""
    print(f"{out}: {made.done:,} pictures of {images.name}{before}, drawn with the seed {seed} by {drawing_by.kind}")
    if made.left_out:
        raise typer.Exit(1)
