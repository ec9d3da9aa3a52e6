"""`maple:<file>+<encoder>`: a CLIP whose two towers carry coupled deep prompts (MaPLe), learned once and then fixed.

Paper: Khattak, Rasheed, Maaz, Khan, Khan, "MaPLe: Multi-modal Prompt Learning", CVPR 2023. The file comes from
`trimtab learn maple` or from the authors; the encoder is any CLIP with a vision transformer. Torch is imported when an
encoder is loaded, not with this package.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.encoders.maple.encoder import MapleEncoder

__all__ = ["load"]

NAME = re.compile(r"maple:(?P<file>.+?)\+(?P<encoder>[a-z]+(:.+)?)")


def load(name: str, device: str, precision: str) -> "MapleEncoder":
    """The prompts in a file, inside the towers of another encoder."""
    parts = NAME.fullmatch(name)
    if parts is None:
        raise TrimtabError(
            f"{name!r} must name the prompts and their encoder, as in maple:prompts.safetensors+openai:ViT-B/16."
        )
    if precision != "fp32":
        raise TrimtabError(f"MaPLe's prompts are computed in float32; use --precision fp32, not {precision}.")
    from trimtab.encoders import load_encoder
    from trimtab.encoders.maple.encoder import maple_encoder
    from trimtab.encoders.maple.prompt_files import read_prompts

    file = Path(parts["file"]).expanduser()
    base = load_encoder(parts["encoder"], device=device, precision=precision)
    return maple_encoder(name, base, read_prompts(file), device=device)
