"""The tiny CLIP that the golden files of prompt tuning were made with, drawn from the configuration in each of them.

Every tensor is drawn, in the order of the state dict, from one generator: shift + scale * normal, rounded to half
precision (so that a loader which passes through it loses nothing). `clip_sha256` in a file is the digest of the result.
"""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trimtab.encoders import Encoder, load_encoder
from trimtab.encoders.openai.model import OpenAIClip

Weights = dict[str, NDArray[np.float32]]


@dataclass
class _Drawer:
    random: np.random.Generator
    gain: float
    out: Weights = field(default_factory=dict)

    def draw(self, name: str, shape: Sequence[int], scale: float, shift: float = 0.0) -> None:
        self.keep(name, shift + scale * self.random.standard_normal(tuple(shape)))

    def keep(self, name: str, values: NDArray[Any]) -> None:
        self.out[name] = values.astype(np.float16).astype(np.float32)

    def norm(self, name: str, width: int) -> None:
        self.draw(f"{name}.weight", (width,), 0.1, 1.0)
        self.draw(f"{name}.bias", (width,), 0.1)

    def block(self, name: str, width: int) -> None:
        self.draw(f"{name}.attn.in_proj_weight", (3 * width, width), self.gain * 1.5 * width**-0.5)
        self.draw(f"{name}.attn.in_proj_bias", (3 * width,), 0.1)
        self.draw(f"{name}.attn.out_proj.weight", (width, width), self.gain * width**-0.5)
        self.draw(f"{name}.attn.out_proj.bias", (width,), 0.05)
        self.norm(f"{name}.ln_1", width)
        self.draw(f"{name}.mlp.c_fc.weight", (4 * width, width), self.gain * width**-0.5)
        self.draw(f"{name}.mlp.c_fc.bias", (4 * width,), 0.1)
        self.draw(f"{name}.mlp.c_proj.weight", (width, 4 * width), self.gain * (4 * width) ** -0.5)
        self.draw(f"{name}.mlp.c_proj.bias", (width,), 0.05)
        self.norm(f"{name}.ln_2", width)

    def convolution(self, name: str, norm: str, outgoing: int, incoming: int, side: int) -> None:
        self.draw(f"{name}.weight", (outgoing, incoming, side, side), (2.0 / (incoming * side * side)) ** 0.5)
        self.draw(f"{norm}.weight", (outgoing,), 0.1, 1.2)
        self.draw(f"{norm}.bias", (outgoing,), 0.2, -0.2)
        self.draw(f"{norm}.running_mean", (outgoing,), 0.1)
        self.keep(f"{norm}.running_var", 0.5 + self.random.random((outgoing,)))

    def text(self, config: dict[str, Any]) -> None:
        width = config["text_width"]
        self.draw("positional_embedding", (config["context_length"], width), config["position_scale"])
        self.draw("text_projection", (width, config["embed_dim"]), width**-0.5)
        self.out["logit_scale"] = np.array(np.log(config["logit_scale"]), np.float32)
        self.draw("token_embedding.weight", (config["vocab_size"], width), config["token_scale"])
        for number in range(config["text_layers"]):
            self.block(f"transformer.resblocks.{number}", width)
        self.norm("ln_final", width)

    def vision_transformer(self, config: dict[str, Any]) -> None:
        width, patch = config["vision_width"], config["patch"]
        self.draw("visual.class_embedding", (width,), width**-0.5)
        self.draw("visual.positional_embedding", ((config["image_size"] // patch) ** 2 + 1, width), width**-0.5)
        self.draw("visual.proj", (width, config["embed_dim"]), width**-0.5)
        self.draw("visual.conv1.weight", (width, 3, patch, patch), (3 * patch * patch) ** -0.5)
        self.norm("visual.ln_pre", width)
        for number in range(config["vision_layers"]):
            self.block(f"visual.transformer.resblocks.{number}", width)
        self.norm("visual.ln_post", width)

    def resnet(self, config: dict[str, Any]) -> None:
        width = config["vision_width"]
        self.convolution("visual.conv1", "visual.bn1", width // 2, 3, 3)
        self.convolution("visual.conv2", "visual.bn2", width // 2, width // 2, 3)
        self.convolution("visual.conv3", "visual.bn3", width, width // 2, 3)
        incoming = width
        for stage, count in enumerate(config["vision_layers"]):
            planes = width * 2**stage
            for number in range(count):
                name = f"visual.layer{stage + 1}.{number}"
                self.convolution(f"{name}.conv1", f"{name}.bn1", planes, incoming, 1)
                self.convolution(f"{name}.conv2", f"{name}.bn2", planes, planes, 3)
                self.convolution(f"{name}.conv3", f"{name}.bn3", planes * 4, planes, 1)
                if number == 0:
                    self.convolution(f"{name}.downsample.0", f"{name}.downsample.1", planes * 4, incoming, 1)
                incoming = planes * 4
        last = width * 32
        self.draw("visual.attnpool.positional_embedding", ((config["image_size"] // 32) ** 2 + 1, last), last**-0.5)
        for letter in "kqv":
            self.draw(f"visual.attnpool.{letter}_proj.weight", (last, last), last**-0.5)
            self.draw(f"visual.attnpool.{letter}_proj.bias", (last,), 0.05)
        self.draw("visual.attnpool.c_proj.weight", (config["embed_dim"], last), last**-0.5)
        self.draw("visual.attnpool.c_proj.bias", (config["embed_dim"],), 0.05)


def tiny_weights(config: dict[str, Any]) -> Weights:
    """The state dict, in the layout of OpenAI's checkpoints, that a golden file's `clip_config` describes."""
    drawer = _Drawer(np.random.default_rng(config["seed"]), config["gain"])
    drawer.text(config)
    if config["kind"] == "vit":
        drawer.vision_transformer(config)
    else:
        drawer.resnet(config)
    return drawer.out


def digest_of(weights: Weights) -> str:
    """The SHA-256 over names, shapes and values, in order."""
    digest = hashlib.sha256()
    for name, values in weights.items():
        digest.update(f"{name}:{values.shape}:".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f4").tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=2)
def tiny_clip(config: str, sha256: str) -> OpenAIClip:
    """The model of a golden file, by its `clip_config` and `clip_sha256`."""
    tensors = _tensors(config, sha256)
    model = OpenAIClip(tensors)
    model.load_state_dict(tensors, strict=False)  # BatchNorm's counters of batches are not in the files
    return model.eval().requires_grad_(False)


@lru_cache(maxsize=2)
def tiny_encoder(config: str, sha256: str) -> Encoder:
    """The same as users load it: from a checkpoint on disk, with CLIP's own tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.pt"
        torch.save(_tensors(config, sha256), file)
        return load_encoder(f"openai:{file}")


def _tensors(config: str, sha256: str) -> dict[str, torch.Tensor]:
    weights = tiny_weights(json.loads(config))
    if digest_of(weights) != sha256:
        raise ValueError(f"the tiny CLIP drawn here is not the file's: its digest is not {sha256[:12]}...")
    return {name: torch.from_numpy(values) for name, values in weights.items()}


def image_features(model: OpenAIClip, pixels: NDArray[Any]) -> NDArray[np.float32]:
    """(..., 3, size, size) normalized pixels -> (..., d) unit features."""
    images = torch.from_numpy(pixels.astype(np.float32)).flatten(0, -4)
    with torch.inference_mode():
        features = torch.nn.functional.normalize(model.visual(images), dim=-1).numpy()
    return features.reshape(*pixels.shape[:-3], -1)
