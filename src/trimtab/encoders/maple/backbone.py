"""The towers of an encoder in the layout of OpenAI's CLIP, whatever library they came from.

One layout means one implementation of the prompts. A converted model is held to the features of the original, so a
model that differs in something that its weights do not tell is refused.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trimtab.encoders.openai.checkpoint import NOT_WEIGHTS
from trimtab.encoders.openai.model import OpenAIClip, QuickGELU
from trimtab.encoders.openai.resnet import HEAD_WIDTH
from trimtab.encoders.torch_encoder import TorchEncoder
from trimtab.errors import TrimtabError

SAME = 1e-4  # how far a feature of the converted model may be from the original's
PROBE = "a photo of a cat."


def openai_towers(encoder: object) -> OpenAIClip:
    """The encoder's towers as an `OpenAIClip` with a vision transformer, or one sentence on why that cannot be."""
    name = getattr(encoder, "name", "The encoder")
    if not isinstance(encoder, TorchEncoder):
        raise TrimtabError(f"{name} is not a CLIP in torch, so prompts cannot be put into its towers; use openai:...")
    model = encoder.model
    if isinstance(model, OpenAIClip):
        clip = model
    else:
        clip = _converted(name, model, encoder.model_device)
        _hold_to(clip, encoder)
    if not hasattr(clip.visual, "class_embedding"):
        raise TrimtabError(f"{name} is a ResNet, which has no tokens for MaPLe's deep prompts; use a ViT checkpoint.")
    return clip


def _converted(name: str, model: nn.Module, device: torch.device) -> OpenAIClip:
    kind = type(model).__name__
    try:
        if kind == "CLIPModel":
            weights, quick, head_width = _of_transformers(model)
        else:
            weights, quick, head_width = _of_open_clip(model)
        with torch.device("meta"):
            clip = OpenAIClip(weights, QuickGELU if quick else nn.GELU, head_width)
        clip.load_state_dict(weights, strict=True, assign=True)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise TrimtabError(
            f"{name} is a {kind}, not a CLIP with a vision transformer, so MaPLe's prompts do not fit into it."
        ) from error
    return clip.to(device).eval().requires_grad_(False)


def _of_transformers(model: Any) -> tuple[dict[str, Tensor], bool, int]:
    """Weights, whether the activation is QuickGELU, and the width of a head in the image tower."""
    text, vision = model.text_model, model.vision_model
    weights = {
        "logit_scale": model.logit_scale,
        "token_embedding.weight": text.embeddings.token_embedding.weight,
        "positional_embedding": text.embeddings.position_embedding.weight,
        "text_projection": model.text_projection.weight.T,
        "visual.class_embedding": vision.embeddings.class_embedding,
        "visual.positional_embedding": vision.embeddings.position_embedding.weight,
        "visual.conv1.weight": vision.embeddings.patch_embedding.weight,
        "visual.proj": model.visual_projection.weight.T,
    }
    modules = {
        "ln_final": text.final_layer_norm,
        "visual.ln_pre": vision.pre_layrnorm,
        "visual.ln_post": vision.post_layernorm,
    }
    for prefix, tower in (("", text), ("visual.", vision)):
        for number, layer in enumerate(tower.encoder.layers):
            start, attention = f"{prefix}transformer.resblocks.{number}.", layer.self_attn
            inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
            weights[f"{start}attn.in_proj_weight"] = torch.cat([part.weight for part in inputs])
            weights[f"{start}attn.in_proj_bias"] = torch.cat([part.bias for part in inputs])
            modules |= {
                f"{start}attn.out_proj": attention.out_proj,
                f"{start}ln_1": layer.layer_norm1,
                f"{start}ln_2": layer.layer_norm2,
                f"{start}mlp.c_fc": layer.mlp.fc1,
                f"{start}mlp.c_proj": layer.mlp.fc2,
            }
    for name, module in modules.items():
        weights |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
    settings = model.config.vision_config
    head_width = settings.hidden_size // settings.num_attention_heads
    whole = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
    return whole, settings.hidden_act == "quick_gelu", head_width


def _of_open_clip(model: Any) -> tuple[dict[str, Tensor], bool, int]:
    """The same of open_clip's plain models, whose weights have OpenAI's names."""
    weights = {name: value for name, value in model.state_dict().items() if name not in NOT_WEIGHTS}
    block = model.visual.transformer.resblocks[0]
    width = weights["visual.class_embedding"].shape[0]
    heads = int(getattr(block.attn, "num_heads", width // HEAD_WIDTH))
    return weights, type(block.mlp.gelu).__name__ == "QuickGELU", width // heads


def _hold_to(clip: OpenAIClip, encoder: TorchEncoder) -> None:
    side = encoder.input_size
    pixels = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    tokens = torch.from_numpy(encoder.tokenize([PROBE])[0]).to(encoder.model_device)
    with torch.inference_mode():
        image = clip.visual(encoder.image_tower.scaled(torch.from_numpy(pixels).to(encoder.model_device)))
        pairs = [(image, encoder.encode_images(pixels)), (clip.encode_text(tokens), encoder.encode_texts([PROBE]))]
    for found, expected in pairs:
        unit = nn.functional.normalize(found, dim=1).cpu().numpy()
        if unit.shape != expected.shape or not np.abs(unit - expected).max() < SAME:
            raise TrimtabError(
                f"{encoder.name} is not a plain CLIP: its features are not those of OpenAI's layout with its weights, "
                "so MaPLe's prompts cannot be put into it."
            )
