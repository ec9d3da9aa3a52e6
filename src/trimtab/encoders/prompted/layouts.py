"""Where the weights of a causal text tower lie in the models of OpenAI, open_clip and transformers."""

from typing import Any

import torch
from torch import nn

from trimtab.encoders.prompted.causal import CausalBlock, CausalText, Norm, linear
from trimtab.errors import TrimtabError


def openai_layout(model: Any) -> CausalText:
    """From our own OpenAI model or one of open_clip's, whose text tower may be a module of its own."""
    tower = getattr(model, "text", model)
    unlike = [
        name
        for name in ("token_embedding", "positional_embedding", "ln_final", "text_projection", "transformer")
        if getattr(tower, name, None) is None
    ]
    if unlike or getattr(tower, "text_pool_type", getattr(tower, "pool_type", "argmax")) != "argmax":
        raise TrimtabError(_unknown(type(tower).__name__))
    projection = tower.text_projection
    return CausalText(
        tokens=tower.token_embedding.weight.detach().float(),
        positions=tower.positional_embedding.detach().float(),
        blocks=[_openai_block(block) for block in tower.transformer.resblocks],
        final_norm=Norm.of(tower.ln_final),
        projection=(projection.weight.t() if isinstance(projection, nn.Linear) else projection).detach().float(),
    )


def _openai_block(block: Any) -> CausalBlock:
    scales = [getattr(block, name, None) for name in ("ls_1", "ls_2")]
    if any(scale is not None and not isinstance(scale, nn.Identity) for scale in scales):
        raise TrimtabError(_unknown("layer-scaled transformer"))
    heads = getattr(block.attn, "heads", None) or block.attn.num_heads
    return CausalBlock(
        attention_norm=Norm.of(block.ln_1),
        projections=(block.attn.in_proj_weight.detach().float(), block.attn.in_proj_bias.detach().float()),
        mixing=linear(block.attn.out_proj),
        perceptron_norm=Norm.of(block.ln_2),
        widening=linear(block.mlp.c_fc),
        narrowing=linear(block.mlp.c_proj),
        heads=int(heads),
        quick_gelu=_is_quick(type(block.mlp.gelu).__name__),
    )


def transformers_layout(model: Any) -> CausalText:
    """From transformers' CLIPModel."""
    tower, config = model.text_model, model.config.text_config
    return CausalText(
        tokens=tower.embeddings.token_embedding.weight.detach().float(),
        positions=tower.embeddings.position_embedding.weight.detach().float(),
        blocks=[_transformers_block(layer, config) for layer in tower.encoder.layers],
        final_norm=Norm.of(tower.final_layer_norm),
        projection=model.text_projection.weight.detach().float().t(),
    )


def _transformers_block(layer: Any, config: Any) -> CausalBlock:
    attention = layer.self_attn
    three = [linear(part) for part in (attention.q_proj, attention.k_proj, attention.v_proj)]
    return CausalBlock(
        attention_norm=Norm.of(layer.layer_norm1),
        projections=(torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three])),
        mixing=linear(attention.out_proj),
        perceptron_norm=Norm.of(layer.layer_norm2),
        widening=linear(layer.mlp.fc1),
        narrowing=linear(layer.mlp.fc2),
        heads=int(config.num_attention_heads),
        quick_gelu=_is_quick(config.hidden_act),
    )


def _is_quick(activation: str) -> bool:
    known = {"QuickGELU": True, "quick_gelu": True, "GELU": False, "gelu": False}
    if activation not in known:
        raise TrimtabError(_unknown(f"tower with {activation}"))
    return known[activation]


def _unknown(what: str) -> str:
    return f"Prompts cannot be learned through this text tower (a {what}); use one with CLIP's own causal text tower."
