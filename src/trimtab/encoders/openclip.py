"""`openclip:<model>/<weights or file>`: open_clip's models.

A file of a plain CLIP (ViT-*, RN*) is read here directly, without the open_clip package. Tags such as
laion2b_s34b_b88k and all other models go through the package.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trimtab.encoders.openai.encoder import DEVIATION, MEAN, clip_encoder
from trimtab.encoders.openai.resnet import HEAD_WIDTH
from trimtab.encoders.prompted.layouts import openai_layout
from trimtab.encoders.tokens import Tokenize, Tokens
from trimtab.encoders.torch_encoder import EncodeText, PixelScale, TorchEncoder
from trimtab.errors import TrimtabError

PLAIN = re.compile(r"(RN\d+(x\d+)?|ViT-(?P<size>[A-Za-z]+)-\d+(-\d+)?(-plus|-plus-\d+|-alt)?)(?P<quick>-quickgelu)?")
# The image towers whose heads are not 64 wide; a checkpoint does not tell.
HEAD_WIDTHS = {"H": 80, "g": 88, "bigG": 104, "e": 112}


def load(name: str, device: str, precision: str) -> TorchEncoder:
    """A model of open_clip with weights from a file or under one of open_clip's tags."""
    model, _, weights = name.partition(":")[2].partition("/")
    if not model or not weights:
        raise TrimtabError(f"{name!r} must name a model and its weights: openclip:ViT-B-16/<tag or file>.")
    file, plain = Path(weights).expanduser(), PLAIN.fullmatch(model)
    if file.is_file() and plain is not None:
        mean, deviation = _colors_beside(file)
        return clip_encoder(
            name,
            file,
            quick_gelu=plain["quick"] is not None,
            head_width=HEAD_WIDTHS.get(plain["size"] or "", HEAD_WIDTH),
            mean=mean,
            deviation=deviation,
            device=device,
            precision=precision,
        )
    return _through_the_package(name, model, str(file) if file.is_file() else weights, device, precision)


def _colors_beside(file: Path) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and deviation from the open_clip_config.json that hubs keep beside a checkpoint; else OpenAI's."""
    config = file.with_name("open_clip_config.json")
    if not config.is_file():
        return MEAN, DEVIATION
    try:
        settings = json.loads(config.read_text(encoding="utf-8")).get("preprocess_cfg", {})
        return settings.get("mean", MEAN), settings.get("std", DEVIATION)
    except (ValueError, AttributeError) as error:
        raise TrimtabError(f"{config} is not an open_clip configuration: {error}") from error


class EncodeImage(nn.Module):
    """Images -> features."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Through open_clip's image tower."""
        features: Tensor = self.model.encode_image(pixels)
        return features


def _through_the_package(name: str, model_name: str, weights: str, device: str, precision: str) -> TorchEncoder:
    try:
        import open_clip
    except ImportError as error:
        raise TrimtabError(
            f"{name!r} needs the open_clip package; run: pip install 'trimtab[openclip]' "
            "(a checkpoint file of a plain ViT or RN model is read without it)."
        ) from error
    try:
        model = open_clip.create_model(model_name, pretrained=weights, require_pretrained=True)
        tokenizer = open_clip.get_tokenizer(model_name)
    except (RuntimeError, OSError, ValueError, AssertionError) as error:
        raise TrimtabError(f"open_clip cannot load {weights!r} into {model_name!r}: {error}") from error
    settings = open_clip.get_model_preprocess_cfg(model)
    size = settings["size"]
    height, width = (size, size) if isinstance(size, int) else size
    if height != width:
        raise TrimtabError(f"{model_name} takes images of {width} x {height}, but trimtab makes square ones.")
    return TorchEncoder(
        name,
        model,
        EncodeImage(model),
        EncodeText(model),
        _tokenize_with(tokenizer),
        input_size=int(height),
        pixel_scale=PixelScale.from_mean_and_deviation(settings["mean"], settings["std"]),
        logit_scale=float(model.logit_scale.detach().float().exp()),
        logit_bias=0.0 if getattr(model, "logit_bias", None) is None else float(model.logit_bias.detach()),
        causal_text=openai_layout,
        device=device,
        precision=precision,
    )


def _tokenize_with(tokenizer: Any) -> Tokenize:
    def tokenize(texts: Sequence[str]) -> tuple[Tokens, Tokens]:
        tokens = tokenizer(list(texts)).to(torch.int64).numpy()  # cuts what is too long, keeping the end mark
        ends = tokens.argmax(axis=1, keepdims=True)  # CLIP's end mark; towers that end otherwise read no mask
        return tokens, (np.arange(tokens.shape[1]) <= ends).astype(np.int64)

    return tokenize
