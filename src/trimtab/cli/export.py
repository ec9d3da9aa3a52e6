"""`trimtab export`: an encoder as ONNX files that run without torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trimtab.cli.options import Encoder, choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IMAGES = 256  # half of them to calibrate on, half to check on; more change little


def export(
    encoder: Encoder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a new or an empty one.")],
    to: Annotated[str, typer.Option(help="Format to write; onnx is the only one.")] = "onnx",
    precision: Annotated[
        str,
        typer.Option(
            help="fp32, fp16 (half the size) or int8 (the image tower).", autocompletion=choices("fp32", "fp16", "int8")
        ),
    ] = "fp32",
    images: Annotated[
        Path | None, typer.Option(help="Folder of images like yours, to calibrate int8, and to check int8 or fp16 on.")
    ] = None,
) -> None:
    r"""Write an encoder as ONNX files, which run without torch.

    Two files and a tokenizer are written, and their output is compared with the original's. int8 makes the image tower
    two to three times as fast on most processors; how well it agrees with fp32 is measured on half of your images and
    printed, and an encoder that agrees badly is not written. fp16 makes the files half as large; on a CPU it is as fast
    as fp32.

    \b
    Examples:
      trimtab export -e lite -o lite-onnx
      trimtab export -e hf:/models/clip-vit-base-patch16 -o clip-onnx
      trimtab export -e lite --precision int8 --images photos/ -o lite-int8
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
    if precision == "bf16":
        raise TrimtabError(
            "ONNX Runtime's CPU cannot compute in bf16; export int8 or fp16, or run the checkpoint itself "
            "(hf:, openai:, openclip:) with --precision bf16."
        )
    if precision not in ("fp32", "fp16", "int8"):
        raise TrimtabError(f"Encoders are exported in fp32, fp16 or int8, not in {precision}.")
    if precision == "int8" and images is None:
        raise TrimtabError("--precision int8 needs --images FOLDER: it is calibrated and checked on your images.")
    if precision == "fp32" and images is not None:
        raise TrimtabError("--images is for --precision int8 or fp16; fp32 is the original.")
    check_free(out)
    console = Console()
    with Console(stderr=True).status(f"Writing {encoder} to {out}"):
        loaded = load_encoder(encoder)
        # Needs torch, which the encoder's own message about missing packages names better.
        from trimtab.encoders.torch_encoder import TorchEncoder

        original = loaded.in_torch() if isinstance(loaded, LiteEncoder) else loaded
        if not isinstance(original, TorchEncoder):
            raise TrimtabError(f"{encoder!r} has no torch modules to export.")
        shown = None if images is None else _plain_views(images, original.input_size)
        differences, agreed = write_onnx_folder(original, out, precision=precision, images=shown)
    for kind, difference in differences.items():
        console.print(f"{kind}: largest difference from the original {difference:.1e}", highlight=False)
    if agreed is not None:
        console.print(f"{precision} and fp32 agree {agreed}", highlight=False, soft_wrap=True)
    console.print(f"Use it as --encoder onnx:{out}", highlight=False, soft_wrap=True)


def _plain_views(folder: Path, size: int) -> "NDArray[np.uint8]":
    """Plain views of images in a folder, evenly spread over it; those that cannot be read are passed over."""
    import numpy as np

    from trimtab.data.folder import Listing
    from trimtab.errors import TrimtabError
    from trimtab.images.decode import decode
    from trimtab.images.views import resize_shorter_and_crop

    if not folder.expanduser().is_dir():
        raise TrimtabError(f"There is no folder {folder}; --images wants a folder of images.")
    files = list(Listing().images(folder.expanduser()))
    found = []
    for file in files[:: max(1, len(files) // MOST_IMAGES)][:MOST_IMAGES]:
        try:
            found.append(resize_shorter_and_crop(decode(file), size))
        except TrimtabError:
            continue
    return np.stack(found) if found else np.empty((0, size, size, 3), np.uint8)
