"""`trimtab export`: an encoder as ONNX files that run without torch."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    encoder: Annotated[str, typer.Option(help="The encoder to write, such as hf:<folder> or openai:ViT-B/16.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write; it must not exist yet.")],
    to: Annotated[str, typer.Option(help="The format to write; onnx is the only one.")] = "onnx",
) -> None:
    """Write an encoder as two ONNX files and a tokenizer, and check them against the original."""
    from rich.console import Console

    from trimtab.encoders import load_encoder
    from trimtab.encoders.lite import LiteEncoder
    from trimtab.encoders.onnx_export import check_free, write_onnx_folder
    from trimtab.errors import TrimtabError

    if to != "onnx":
        raise TrimtabError(f"There is no format {to!r}; the choice is onnx.")
    if encoder.startswith("onnx:"):
        raise TrimtabError(f"{encoder!r} is made of ONNX files already; copy its folder.")
    check_free(output)
    console = Console()
    with Console(stderr=True).status(f"Writing {encoder} to {output}"):
        loaded = load_encoder(encoder)
        # Needs torch, which the encoder's own message about missing packages names better.
        from trimtab.encoders.torch_encoder import TorchEncoder

        original = loaded.in_torch() if isinstance(loaded, LiteEncoder) else loaded
        if not isinstance(original, TorchEncoder):
            raise TrimtabError(f"{encoder!r} has no torch modules to export.")
        differences = write_onnx_folder(original, output)
    for kind, difference in differences.items():
        console.print(f"{kind}: largest difference from the original {difference:.1e}", highlight=False)
    console.print(f"Use it as --encoder onnx:{output}", highlight=False, soft_wrap=True)
