"""The tiny CLIP that the golden files of prompt learning were made with, rebuilt from the sizes that they state.

One random generator draws every tensor in the order of the state dict; each is rounded to half precision, as OpenAI's
published weights are.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

GOLDEN = Path(__file__).parent / "golden" / "prompt"


def golden(name):
    return np.load(GOLDEN / f"{name}.npz")


def write_golden_clip(file, folder):
    """The checkpoint that belongs to a golden file, checked against the digest in it; returns its path."""
    weights = golden_weights(**json.loads(str(file["clip_config"])))
    digest = hashlib.sha256()
    for name, array in weights.items():
        digest.update(f"{name}:{array.shape}:".encode() + np.ascontiguousarray(array, "<f4").tobytes())
    assert digest.hexdigest() == str(file["clip_sha256"])
    path = Path(folder) / "clip.pt"
    torch.save({name: torch.from_numpy(np.array(array)) for name, array in weights.items()}, path)
    return path


def golden_weights(
    *,
    seed,
    kind,
    image_size,
    vision_width,
    vision_layers,
    text_width,
    text_layers,
    embed_dim,
    patch=8,
    logit_scale=100.0,
    context_length=77,
    vocab_size=49408,
    gain=1.0,
    token_scale=0.05,
    position_scale=0.02,
):
    draw = _Draws(seed, gain)
    draw("positional_embedding", (context_length, text_width), position_scale)
    draw("text_projection", (text_width, embed_dim), text_width**-0.5)
    draw.weights["logit_scale"] = np.float32(np.log(logit_scale)).reshape(())
    draw("token_embedding.weight", (vocab_size, text_width), token_scale)
    for layer in range(text_layers):
        draw.block(f"transformer.resblocks.{layer}", text_width)
    draw.norm("ln_final", text_width)
    if kind == "vit":
        draw.vision_transformer(vision_width, vision_layers, image_size, patch, embed_dim)
    else:
        draw.resnet(vision_width, vision_layers, image_size, embed_dim)
    return draw.weights


class _Draws:
    def __init__(self, seed, gain):
        self.random, self.gain, self.weights = np.random.default_rng(seed), gain, {}

    def __call__(self, name, shape, scale, shift=0.0):
        drawn = shift + scale * self.random.standard_normal(shape)
        self.weights[name] = drawn.astype(np.float16).astype(np.float32)

    def norm(self, name, width):
        self(f"{name}.weight", (width,), 0.1, 1.0)
        self(f"{name}.bias", (width,), 0.1)

    def block(self, name, width):
        unit = self.gain * width**-0.5
        self(f"{name}.attn.in_proj_weight", (3 * width, width), self.gain * 1.5 * width**-0.5)
        self(f"{name}.attn.in_proj_bias", (3 * width,), 0.1)
        self(f"{name}.attn.out_proj.weight", (width, width), unit)
        self(f"{name}.attn.out_proj.bias", (width,), 0.05)
        self.norm(f"{name}.ln_1", width)
        self(f"{name}.mlp.c_fc.weight", (4 * width, width), unit)
        self(f"{name}.mlp.c_fc.bias", (4 * width,), 0.1)
        self(f"{name}.mlp.c_proj.weight", (width, 4 * width), self.gain * (4 * width) ** -0.5)
        self(f"{name}.mlp.c_proj.bias", (width,), 0.05)
        self.norm(f"{name}.ln_2", width)

    def vision_transformer(self, width, layers, size, patch, dim):
        self("visual.class_embedding", (width,), width**-0.5)
        self("visual.positional_embedding", ((size // patch) ** 2 + 1, width), width**-0.5)
        self("visual.proj", (width, dim), width**-0.5)
        self("visual.conv1.weight", (width, 3, patch, patch), (3 * patch * patch) ** -0.5)
        self.norm("visual.ln_pre", width)
        for layer in range(layers):
            self.block(f"visual.transformer.resblocks.{layer}", width)
        self.norm("visual.ln_post", width)

    def resnet(self, width, layers, size, dim):
        self.convolution("visual.conv1", "visual.bn1", width // 2, 3, 3)
        self.convolution("visual.conv2", "visual.bn2", width // 2, width // 2, 3)
        self.convolution("visual.conv3", "visual.bn3", width, width // 2, 3)
        incoming = width
        for stage, blocks in enumerate(layers):
            middle = width * 2**stage
            for block in range(blocks):
                name = f"visual.layer{stage + 1}.{block}"
                self.convolution(f"{name}.conv1", f"{name}.bn1", middle, incoming, 1)
                self.convolution(f"{name}.conv2", f"{name}.bn2", middle, middle, 3)
                self.convolution(f"{name}.conv3", f"{name}.bn3", middle * 4, middle, 1)
                if block == 0:
                    self.convolution(f"{name}.downsample.0", f"{name}.downsample.1", middle * 4, incoming, 1)
                incoming = middle * 4
        last = width * 32
        self("visual.attnpool.positional_embedding", ((size // 32) ** 2 + 1, last), last**-0.5)
        for letter in "kqv":
            self(f"visual.attnpool.{letter}_proj.weight", (last, last), last**-0.5)
            self(f"visual.attnpool.{letter}_proj.bias", (last,), 0.05)
        self("visual.attnpool.c_proj.weight", (dim, last), last**-0.5)
        self("visual.attnpool.c_proj.bias", (dim,), 0.05)

    def convolution(self, name, norm, outgoing, incoming, side):
        self(f"{name}.weight", (outgoing, incoming, side, side), (2.0 / (incoming * side * side)) ** 0.5)
        self(f"{norm}.weight", (outgoing,), 0.1, 1.2)
        self(f"{norm}.bias", (outgoing,), 0.2, -0.2)
        self(f"{norm}.running_mean", (outgoing,), 0.1)
        spread = 0.5 + self.random.random((outgoing,))
        self.weights[f"{norm}.running_var"] = spread.astype(np.float16).astype(np.float32)
