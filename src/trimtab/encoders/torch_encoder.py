"""What all encoders that run in torch have in common: device, precision, pixels in, unit features out."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trimtab.encoders.base import checked_pixels, checked_texts, unit_features
from trimtab.encoders.prompted import WORDS, GivenContext
from trimtab.encoders.prompted.causal import CausalText
from trimtab.encoders.prompted.making import make_tower
from trimtab.encoders.prompted.tower import PromptedTower
from trimtab.encoders.tokens import Tokenize
from trimtab.errors import TrimtabError

IMAGES_AT_ONCE = 64
TEXTS_AT_ONCE = 256
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# Texts whose token numbers go into the fingerprint: case, punctuation, digits, accents, a word no vocabulary has.
PROBES = ("a photo of a cat.", "A Boeing 737-800, seen from below!", "crème brûlée", "it's a qzxvkjw")


@dataclass(frozen=True)
class PixelScale:
    """How bytes become what the image tower reads: byte * factor + offset, per color."""

    factor: tuple[float, float, float]
    offset: tuple[float, float, float]

    @classmethod
    def from_mean_and_deviation(
        cls, mean: Sequence[float], deviation: Sequence[float], rescale: float = 1 / 255
    ) -> "PixelScale":
        """(byte * rescale - mean) / deviation."""
        factor = [rescale / spread for spread in deviation]
        offset = [-middle / spread for middle, spread in zip(mean, deviation, strict=True)]
        return cls((factor[0], factor[1], factor[2]), (offset[0], offset[1], offset[2]))


class ImageTower(torch.nn.Module):
    """(B, size, size, 3) bytes -> (B, d) float32 features, around a module that takes (B, 3, size, size)."""

    factor: torch.Tensor
    offset: torch.Tensor

    def __init__(self, inner: torch.nn.Module, scale: PixelScale) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("factor", torch.tensor(scale.factor).view(1, 3, 1, 1))
        self.register_buffer("offset", torch.tensor(scale.offset).view(1, 3, 1, 1))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features in float32 whatever the precision."""
        features: torch.Tensor = self.inner(self.scaled(pixels).to(next(self.inner.parameters()).dtype))
        return features.to(torch.float32)

    def scaled(self, pixels: torch.Tensor) -> torch.Tensor:
        """(B, 3, size, size) in float32: bytes times a small factor would lose digits in half precision."""
        return pixels.permute(0, 3, 1, 2).to(torch.float32) * self.factor + self.offset


class EncodeText(torch.nn.Module):
    """Tokens -> features for models with an `encode_text` that finds the end of a text without a mask."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Through the model's text tower and its projection."""
        features: torch.Tensor = self.model.encode_text(tokens)
        return features


class TextTower(torch.nn.Module):
    """(n, length) tokens and mask -> (n, d) float32 features."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features in float32 whatever the precision."""
        features: torch.Tensor = self.inner(tokens, mask)
        return features.to(torch.float32)


class TorchEncoder:
    """Two towers in torch and a tokenizer.

    `model` owns all weights; `image` and `text` are modules that call its two halves. `variant` names what else changes
    the features, such as an activation that the weights do not tell; it is part of the fingerprint. `causal_text` finds
    in `model` what prompts can be learned through.
    """

    def __init__(
        self,
        name: str,
        model: torch.nn.Module,
        image: torch.nn.Module,
        text: torch.nn.Module,
        tokenize: Tokenize,
        *,
        input_size: int,
        pixel_scale: PixelScale,
        logit_scale: float,
        logit_bias: float = 0.0,
        variant: str = "",
        causal_text: Callable[[Any], CausalText] | None = None,
        device: str = "cpu",
        precision: str = "fp32",
    ) -> None:
        self.name = name
        self.input_size = input_size
        self.logit_scale = logit_scale
        self.logit_bias = logit_bias  # SigLIP's; it matters to a sigmoid, a softmax does not notice it
        self.tokenize = tokenize
        self._device = usable_device(device)
        self._settings = json.dumps([input_size, pixel_scale.factor, pixel_scale.offset, precision]) + variant
        model = model.eval().requires_grad_(False).to(device=self._device, dtype=DTYPES[precision])
        self._model, self._causal_text = model, causal_text
        self.image_tower = ImageTower(image, pixel_scale).to(self._device).eval()
        self.sentence_tower = TextTower(text).eval()

    @property
    def model(self) -> torch.nn.Module:
        """The module that owns all weights."""
        return self._model

    @property
    def model_device(self) -> torch.device:
        """Where the weights are."""
        return self._device

    @cached_property
    def dim(self) -> int:
        """The number of feature dimensions, found by encoding one text."""
        return int(self._text_features(["a photo"]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, variant, how pixels are scaled and what the tokenizer makes of a few texts."""
        digest = hashlib.sha256(self._settings.encode())
        add_weights(digest, self._model)
        for text in PROBES:
            digest.update(self.tokenize([text])[0].tobytes())
        return digest.hexdigest()

    def encode_images(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, input_size, input_size, 3) RGB bytes -> (B, d) unit features."""
        return unit_features(self._image_features, checked_pixels(pixels, self.input_size), IMAGES_AT_ONCE, self.dim)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences -> (n, d) unit features."""
        return unit_features(self._text_features, checked_texts(texts), TEXTS_AT_ONCE, self.dim)

    def text_tower(
        self,
        class_names: Sequence[str],
        *,
        words: str = WORDS,
        position: str | None = None,
        context: GivenContext = None,
    ) -> PromptedTower:
        """The text tower of these classes as a function of a context, which starts at the embeddings of `words`.

        `context` starts it elsewhere: at an array (L, w) or (classes, L, w), or at a file that `trimtab learn` or
        CoOp's program wrote. `position` says where names stand: at the end (the default), in the middle or in front.
        """
        if self._causal_text is None:
            raise TrimtabError(
                f"Prompts cannot be learned through the text tower of {self.name}; "
                "use lite, or a CLIP under hf:, openai: or openclip:."
            )
        return make_tower(
            self._causal_text(self._model),
            self.tokenize,
            class_names,
            words=words,
            position=position,
            context=context,
            encoder=self.name,
            encoder_fingerprint=self.fingerprint,
            device=self._device,
        )

    def _image_features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            features: NDArray[np.float32] = self.image_tower(torch.from_numpy(pixels).to(self._device)).cpu().numpy()
        return features

    def _text_features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        tokens, mask = (torch.from_numpy(array).to(self._device) for array in self.tokenize(texts))
        with torch.inference_mode():
            features: NDArray[np.float32] = self.sentence_tower(tokens, mask).cpu().numpy()
        return features


def add_weights(digest: "hashlib._Hash", model: torch.nn.Module) -> None:
    """Let a hash know a module's weights, by their names."""
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def usable_device(device: str) -> torch.device:
    """The torch device of that name, or a clear refusal."""
    if not re.fullmatch(r"(cpu|cuda|mps)(:\d{1,2})?", device):
        raise TrimtabError(f"There is no device {device!r}; the choices are cpu, cuda, cuda:<number> and mps.")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise TrimtabError("This torch sees no CUDA device; use --device cpu, or install a torch built for your GPU.")
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise TrimtabError("This torch sees no Apple GPU; use --device cpu.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise TrimtabError(f"There is no device {device!r}; this machine has {torch.cuda.device_count()} CUDA devices.")
    return found
