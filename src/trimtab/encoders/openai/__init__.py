"""`openai:<ViT-B/16, RN50, ... or file.pt>`: OpenAI's original CLIP checkpoints, without OpenAI's package.

Torch is imported when an encoder is loaded, not with this package.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.encoders.openai.published import SHA256, published_checkpoint
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.encoders.torch_encoder import TorchEncoder

__all__ = ["load"]


def load(name: str, device: str, precision: str) -> "TorchEncoder":
    """A published model by its name, or any checkpoint of the same layout by its path."""
    from trimtab.encoders.openai.encoder import clip_encoder

    chosen = name.partition(":")[2]
    file = Path(chosen).expanduser()
    if not file.is_file():
        if chosen not in SHA256:
            raise TrimtabError(f"{chosen!r} is neither a file nor one of OpenAI's models: {', '.join(SHA256)}.")
        file = published_checkpoint(chosen)
    return clip_encoder(name, file, device=device, precision=precision)
