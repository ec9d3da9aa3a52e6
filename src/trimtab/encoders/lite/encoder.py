"""`lite`: the encoder that works offline, from PyPI packages alone.

An EfficientNet-Lite0 trained on ImageNet, a small sentence encoder, and a linear bridge between them (build.py).
It is not CLIP and much weaker than CLIP: it knows what ImageNet's 1,000 classes and their neighbors look like. It is
there so that everything can be tried, tested and taught on real images without a download.

Both towers are exported to ONNX once and kept in the cache folder; after that nothing here imports torch.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import checked_pixels, checked_texts, first_line, unit_features, unit_rows
from trimtab.encoders.lite.build import export_image_tower, export_text_tower, fit_bridge
from trimtab.encoders.lite.built_once import built_once
from trimtab.encoders.lite.sources import CLASS_NAMES, image_weights, text_model, text_tokens
from trimtab.encoders.onnx import IMAGES_AT_ONCE, TEXTS_AT_ONCE, need_runtime, open_session, run_session
from trimtab.encoders.prompted import WORDS, GivenContext
from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError
from trimtab.files import cache_folder, sha256_of

if TYPE_CHECKING:
    from trimtab.encoders.prompted.tower import PromptedTower
    from trimtab.encoders.torch_encoder import TorchEncoder

SENTENCE_DIM = 384
RECIPE = "lite 1"  # part of the fingerprint: change it when the same weights would give other features

Array = NDArray[np.float32]


class LiteEncoder:
    """EfficientNet-Lite0 and MiniLM joined by a ridge regression; see the module's text."""

    name = "lite"
    dim = 1280
    input_size = 224
    # The tower's own classifier works with |features| x |class direction| x cosine, and these lengths are about
    # 17 and 2.3 on real images. Their product is the temperature it was trained at; no label was looked at.
    logit_scale = 40.0

    def __init__(self) -> None:
        self._folder = cache_folder("lite", self.fingerprint[:16])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of both checkpoints, the class names and the recipe."""
        texts = text_model()
        files = [image_weights(), texts / "model.safetensors", texts / "tokenizer.json", CLASS_NAMES]
        parts = [RECIPE, *(sha256_of(path) for path in files)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def encode_images(self, pixels: NDArray[np.uint8]) -> Array:
        """(B, 224, 224, 3) RGB bytes -> (B, 1280) unit features."""
        return unit_features(self._image_features, checked_pixels(pixels, self.input_size), IMAGES_AT_ONCE, self.dim)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        """Sentences -> (n, 1280) unit directions in the space of the image features."""
        return unit_rows(self._embed(checked_texts(texts)) @ self._bridge)

    def text_tower(
        self,
        class_names: Sequence[str],
        *,
        words: str = WORDS,
        position: str | None = None,
        context: GivenContext = None,
    ) -> "PromptedTower":
        """The text tower of these classes as a function of a context; see `TorchEncoder.text_tower`. It needs torch."""
        from trimtab.encoders.lite.towers import sentences_from_embeddings
        from trimtab.encoders.prompted.making import make_tower

        return make_tower(
            sentences_from_embeddings(self._bridge),
            text_tokens(),
            class_names,
            words=words,
            position=position,
            context=context,
            encoder=self.name,
            encoder_fingerprint=self.fingerprint,
        )

    def in_torch(self) -> "TorchEncoder":
        """The same encoder as torch modules, for export."""
        from trimtab.encoders.lite.towers import lite_in_torch

        return lite_in_torch(self._bridge, self.logit_scale)

    @cached_property
    def _image_session(self) -> Any:
        return open_session(self._part("image", export_image_tower) / "image.onnx")

    @cached_property
    def _text_tower(self) -> tuple[TextTokens, Any]:
        folder = self._part("text", export_text_tower)
        return TextTokens.open(folder / "tokenizer.json"), open_session(folder / "text.onnx")

    @cached_property
    def _bridge(self) -> Array:
        from safetensors.numpy import load_file

        folder = self._part("bridge", lambda folder: fit_bridge(folder, self._embed))
        bridge: Array = load_file(folder / "bridge.safetensors")["bridge"]
        return bridge

    def _embed(self, texts: Sequence[str]) -> Array:
        """The sentence encoder alone: (n, 384), unit."""
        return unit_features(self._sentence_features, texts, TEXTS_AT_ONCE, SENTENCE_DIM)

    def _image_features(self, pixels: NDArray[np.uint8]) -> Array:
        return run_session(self._image_session, {"pixels": pixels})

    def _sentence_features(self, texts: Sequence[str]) -> Array:
        tokenize, session = self._text_tower
        tokens, mask = tokenize(texts)
        return run_session(session, {"tokens": tokens, "mask": mask})

    def _part(self, part: str, build: Callable[[Path], None]) -> Path:
        def build_or_explain(folder: Path) -> None:
            try:
                build(folder)
            except ImportError as error:
                message = f"The lite encoder needs {error.name}; run: pip install 'trimtab[lite]'"
                raise TrimtabError(message) from error
            except (TrimtabError, MemoryError):
                raise
            except Exception as error:  # damaged packages, a full disk: torch and safetensors raise kinds of their own
                raise TrimtabError(
                    f"The {part} part of the lite encoder could not be built ({first_line(error)}); make room on the "
                    f"disk of {folder.parent}, or run: pip install --force-reinstall 'trimtab[lite]'"
                ) from error

        return built_once(self._folder / part, build_or_explain, f"{part} part of the lite encoder")


def load(name: str, device: str, precision: str) -> LiteEncoder:
    """The lite encoder; it runs on the CPU in float32 and nowhere else."""
    if precision == "int8":
        raise TrimtabError(
            f"The {name} encoder is calibrated on images before it runs in int8; run: trimtab export -e lite "
            "--precision int8 --images FOLDER -o lite-int8, and use -e onnx:lite-int8."
        )
    if device != "cpu" or precision != "fp32":
        raise TrimtabError(f"The {name} encoder runs on cpu in fp32 only, not on {device} in {precision}.")
    need_runtime()
    return LiteEncoder()
