"""OpenAI's CLIP (Radford et al. 2021) in torch: modules named so that the original checkpoints load unchanged.

Text: a causal transformer read at the end-of-text token. Images: a vision transformer read at its class token, or a
ResNet (resnet.py). All sizes follow from the shapes of the checkpoint.
"""

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from trimtab.encoders.openai.resnet import HEAD_WIDTH, ModifiedResNet


class QuickGELU(nn.Module):
    """The approximation of GELU that OpenAI's weights were trained with."""

    def forward(self, x: Tensor) -> Tensor:
        """The logistic function of 1.702 x, times x."""
        return x * torch.sigmoid(1.702 * x)


class Attention(nn.Module):
    """Self-attention with the three input projections in one matrix."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)
        self.in_proj: nn.Module | None = None

    def project_by_a_layer(self) -> None:
        """Make the input projection a linear layer, which may then be replaced by one of another precision."""
        layer = nn.Linear(self.in_proj_weight.shape[1], self.in_proj_weight.shape[0], device="meta")
        layer.weight, layer.bias = self.in_proj_weight, self.in_proj_bias
        self.in_proj = layer

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """(B, length, width) -> the same."""
        batch, length, width = x.shape
        if self.in_proj is None:
            projected = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        else:
            projected = self.in_proj(x)
        query, key, value = projected.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class Block(nn.Module):
    """Pre-norm attention and a two-layer perceptron, each with a residual."""

    def __init__(self, width: int, heads: int, hidden: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        layers = {"c_fc": nn.Linear(width, hidden), "gelu": activation(), "c_proj": nn.Linear(hidden, width)}
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """(B, length, width) -> the same."""
        x = x + self.attn(self.ln_1(x), causal)
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class Transformer(nn.Module):
    """A stack of blocks."""

    def __init__(
        self, weights: Mapping[str, Tensor], prefix: str, head_width: int, activation: type[nn.Module]
    ) -> None:
        super().__init__()
        start = f"{prefix}resblocks."
        layers = {int(name[len(start) :].split(".")[0]) for name in weights if name.startswith(start)}
        hidden, width = weights[f"{start}0.mlp.c_fc.weight"].shape
        heads = max(1, width // head_width)
        self.resblocks = nn.ModuleList(Block(width, heads, hidden, activation) for _ in layers)

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """(B, length, width) -> the same."""
        for block in self.resblocks:
            x = block(x, causal)
        return x


class VisionTransformer(nn.Module):
    """Patches and a class token through a transformer; the class token, projected, is the feature."""

    def __init__(self, weights: Mapping[str, Tensor], head_width: int, activation: type[nn.Module]) -> None:
        super().__init__()
        width, _, patch, _ = weights["visual.conv1.weight"].shape
        positions = weights["visual.positional_embedding"].shape[0]
        self.input_size = patch * round((positions - 1) ** 0.5)
        self.conv1 = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        self.class_embedding = nn.Parameter(torch.empty(width))
        self.positional_embedding = nn.Parameter(torch.empty(positions, width))
        self.ln_pre = nn.LayerNorm(width)
        self.transformer = Transformer(weights, "visual.transformer.", head_width, activation)
        self.ln_post = nn.LayerNorm(width)
        self.proj = nn.Parameter(torch.empty(weights["visual.proj"].shape))

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, size, size) -> (B, d)."""
        patches = self.conv1(pixels).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(pixels.shape[0], 1, -1)
        x = torch.cat([first, patches], dim=1) + self.positional_embedding
        x = self.transformer(self.ln_pre(x), causal=False)
        out: Tensor = self.ln_post(x[:, 0]) @ self.proj
        return out


class OpenAIClip(nn.Module):
    """Both towers, sized by the checkpoint's tensors; `load_state_dict` then fills them."""

    def __init__(
        self, weights: Mapping[str, Tensor], activation: type[nn.Module] = QuickGELU, head_width: int = HEAD_WIDTH
    ) -> None:
        super().__init__()
        self.visual: VisionTransformer | ModifiedResNet
        if "visual.layer1.0.conv1.weight" in weights:
            self.visual = ModifiedResNet(weights)
        else:
            self.visual = VisionTransformer(weights, head_width, activation)
        vocabulary, width = weights["token_embedding.weight"].shape
        self.context = weights["positional_embedding"].shape[0]
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.positional_embedding = nn.Parameter(torch.empty(self.context, width))
        self.transformer = Transformer(weights, "transformer.", HEAD_WIDTH, activation)
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.empty(weights["text_projection"].shape))
        self.logit_scale = nn.Parameter(torch.empty(()))

    def encode_text(self, tokens: Tensor) -> Tensor:
        """(n, length) -> (n, d); the end-of-text token has the highest number, so argmax finds it."""
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        x = self.ln_final(self.transformer(x, causal=True))
        ends = x[torch.arange(x.shape[0], device=x.device), tokens.argmax(dim=-1)]
        return ends @ self.text_projection
