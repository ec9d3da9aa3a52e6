"""Writing an encoder as a folder that `onnx:<folder>` opens."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.encoders.onnx import FORMAT, SETTINGS, OnnxEncoder
from trimtab.encoders.onnx_export import export_onnx
from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.encoders.torch_encoder import TorchEncoder

TEXTS = ("a photo of a cat.", "a blurry photo of a golden retriever, seen from the side.", "x")


def write_onnx_folder(encoder: "TorchEncoder", folder: Path) -> dict[str, float]:
    """Write `encoder` to `folder` and return the largest differences of unit features from the original.

    The folder appears only when it is complete.
    """
    check_free(folder)
    if not isinstance(encoder.tokenize, TextTokens):
        raise TrimtabError(f"The tokenizer of {encoder.name!r} cannot be written as a file, so it cannot be exported.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder.parent) as scratch:
        written = Path(scratch) / "encoder"
        written.mkdir()
        _write(encoder, encoder.tokenize, written)
        differences = compare(encoder, OnnxEncoder(f"onnx:{folder}", written))
        if folder.exists():
            folder.rmdir()
        written.rename(folder)
    return differences


def check_free(folder: Path) -> None:
    """Refuse a folder that something would be overwritten in."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrimtabError(f"{folder} is already there and not empty; choose another folder or remove it.")


def compare(original: "TorchEncoder", exported: OnnxEncoder) -> dict[str, float]:
    """The largest absolute difference between the unit features of both, for images and for texts."""
    size = original.input_size
    pixels = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    images = np.abs(original.encode_images(pixels) - exported.encode_images(pixels)).max()
    texts = np.abs(original.encode_texts(TEXTS) - exported.encode_texts(TEXTS)).max()
    return {"images": float(images), "texts": float(texts)}


def _write(encoder: "TorchEncoder", tokens: TextTokens, folder: Path) -> None:
    import torch

    size = encoder.input_size
    pixels = torch.randint(0, 256, (2, size, size, 3), dtype=torch.uint8)
    export_onnx(encoder.image_tower, (pixels,), ["pixels"], [{0: "images"}], folder / "image.onnx")
    ids, mask = (torch.from_numpy(array) for array in tokens(TEXTS[:2]))
    # A tokenizer that always fills up the context leaves no second axis to vary.
    shape = {0: "texts"} if tokens.fixed_length else {0: "texts", 1: "length"}
    limits = {"length": tokens.context}
    export_onnx(encoder.text_tower, (ids, mask), ["tokens", "mask"], [shape, shape], folder / "text.onnx", limits)
    tokens.save(folder / "tokenizer.json")
    settings = {
        "format": FORMAT,
        "exported_from": encoder.name,
        "dim": encoder.dim,
        "input_size": size,
        "logit_scale": encoder.logit_scale,
        "logit_bias": encoder.logit_bias,
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
