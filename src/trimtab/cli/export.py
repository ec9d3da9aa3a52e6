"""`trimtab export`: an encoder as ONNX files that run without torch."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Encoder


def export(
    encoder: Encoder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; it must not exist yet.")],
    to: Annotated[str, typer.Option(help="Format to write; onnx is the only one.")] = "onnx",
) -> None:
    r"""Write an encoder as ONNX files, which run without torch.

    Two files and a tokenizer are written, and their output is compared with the original's.

    \b
    Examples:
      trimtab export -e lite -o lite-onnx
      trimtab export -e hf:/models/clip-vit-base-patch16 -o clip-onnx
    """
    from rich.console import Console

    from trimtab.encoders import load_encoder
    from trimtab.encoders.lite import LiteEncoder
    from trimtab.encoders.onnx_export import check_free, write_onnx_folder
    from trimtab.errors import TrimtabError

    if to != "onnx":
        raise TrimtabError(f"There is no format {to!r}; the choice is onnx.")
    if encoder.startswith("onnx:"):
        raise TrimtabError(f"{encoder!r} is already made of ONNX files; copy its folder.")
    check_free(out)
    console = Console()
    with Console(stderr=True).status(f"Writing {encoder} to {out}"):
        loaded = load_encoder(encoder)
        # Needs torch, which the encoder's own message about missing packages names better.
        from trimtab.encoders.torch_encoder import TorchEncoder

        original = loaded.in_torch() if isinstance(loaded, LiteEncoder) else loaded
        if not isinstance(original, TorchEncoder):
            raise TrimtabError(f"{encoder!r} has no torch modules to export.")
        differences = write_onnx_folder(original, out)
    for kind, difference in differences.items():
        console.print(f"{kind}: largest difference from the original {difference:.1e}", highlight=False)
    console.print(f"Use it as --encoder onnx:{out}", highlight=False, soft_wrap=True)
