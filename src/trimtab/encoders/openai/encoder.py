"""An encoder from weights in the layout of OpenAI's CLIP, which open_clip's plain models share."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from trimtab.encoders.openai.checkpoint import read_checkpoint
from trimtab.encoders.openai.model import OpenAIClip, QuickGELU
from trimtab.encoders.openai.resnet import HEAD_WIDTH
from trimtab.encoders.openai.tokenizer import clip_tokens
from trimtab.encoders.prompted.layouts import openai_layout
from trimtab.encoders.torch_encoder import EncodeText, PixelScale, TorchEncoder
from trimtab.errors import TrimtabError

# The colors of CLIP's training images.
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def clip_encoder(
    name: str,
    file: Path,
    *,
    quick_gelu: bool = True,
    head_width: int = HEAD_WIDTH,
    mean: Sequence[float] = MEAN,
    deviation: Sequence[float] = DEVIATION,
    device: str,
    precision: str,
) -> TorchEncoder:
    """Build the towers that the weights in `file` describe, and fill them.

    `quick_gelu`, `head_width`, `mean` and `deviation` are what a file cannot tell; the defaults are OpenAI's.
    """
    weights = read_checkpoint(file)
    try:
        with torch.device("meta"):
            model = OpenAIClip(weights, QuickGELU if quick_gelu else nn.GELU, head_width)
        model.load_state_dict(weights, strict=True, assign=True)
    except KeyError as error:
        raise TrimtabError(f"{file} is not a CLIP checkpoint: it has no weight called {error.args[0]}.") from error
    except RuntimeError as error:
        raise TrimtabError(f"{file} is not a CLIP that trimtab knows: {' '.join(str(error).split())[:300]}") from error
    openai_like = quick_gelu and head_width == HEAD_WIDTH
    return TorchEncoder(
        name,
        model,
        model.visual,
        EncodeText(model),
        clip_tokens(file.parent, model.token_embedding.num_embeddings, model.context),
        input_size=model.visual.input_size,
        pixel_scale=PixelScale.from_mean_and_deviation(mean, deviation),
        logit_scale=float(model.logit_scale.detach().exp()),
        variant="" if openai_like else f"quick_gelu={quick_gelu} head_width={head_width}",
        causal_text=openai_layout,
        device=device,
        precision=precision,
    )
