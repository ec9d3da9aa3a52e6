"""An encoder from weights in the layout of OpenAI's CLIP, which open_clip's plain models share."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from trimtab.encoders.openai.model import HEAD_WIDTH, OpenAIClip, QuickGELU
from trimtab.encoders.openai.tokens import clip_tokens
from trimtab.encoders.torch_encoder import PixelScale, TorchEncoder
from trimtab.errors import TrimtabError

# The colours of CLIP's training images.
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)


class TextHalf(nn.Module):
    """Tokens -> features; the end-of-text token says where a text ends, so the mask is not needed."""

    def __init__(self, model: OpenAIClip) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002
        """Through the text transformer and its projection."""
        return self.model.encode_text(tokens)


def clip_encoder(
    name: str,
    weights: Mapping[str, Tensor],
    file: Path,
    *,
    activation: type[nn.Module] = QuickGELU,
    head_width: int = HEAD_WIDTH,
    mean: Sequence[float] = MEAN,
    deviation: Sequence[float] = DEVIATION,
    device: str,
    precision: str,
) -> TorchEncoder:
    """Build the towers that `weights` (read from `file`) describe, and fill them."""
    try:
        with torch.device("meta"):
            model = OpenAIClip(weights, activation, head_width)
        model.load_state_dict(dict(weights), strict=True, assign=True)
    except KeyError as error:
        raise TrimtabError(f"{file} is not a CLIP checkpoint: it has no weight called {error.args[0]}.") from error
    except RuntimeError as error:
        raise TrimtabError(f"{file} is not a CLIP that trimtab knows: {' '.join(str(error).split())[:300]}") from error
    vocabulary = model.token_embedding.num_embeddings
    return TorchEncoder(
        name,
        model,
        model.visual,
        TextHalf(model),
        clip_tokens(file.parent, vocabulary, model.context),
        input_size=model.visual.input_size,
        pixel_scale=PixelScale.from_mean_and_deviation(mean, deviation),
        logit_scale=float(model.logit_scale.detach().exp()),
        device=device,
        precision=precision,
    )
