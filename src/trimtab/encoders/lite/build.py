"""Making the parts of the `lite` encoder from the packages that hold its weights; only this needs torch.

Image tower  EfficientNet-Lite0 up to its pooled features: (x - 127) / 128, then 1280 numbers per image, none negative.
Text tower   all-MiniLM-L6-v2 with mean pooling: 384 numbers per sentence.
Bridge       a 384 x 1280 matrix from the second space to the first. The last layer of the image tower holds, for each
             of the 1,000 ImageNet classes, the direction in feature space that means this class. Ridge regression from
             the embeddings of the class names to these (centered) directions gives a map that also carries other names.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.lite.sources import CLASS_NAMES, LONGEST_TEXT, image_weights, text_tokens

# The bridge is fitted to both forms, so that bare names and prompts land in the same place.
FORMS = ("{}", "a photo of a {}.")
RIDGE = 10.0  # per form

Array = NDArray[np.float32]


def export_image_tower(folder: Path) -> None:
    """Write image.onnx."""
    import torch

    from trimtab.encoders.lite.towers import image_tower
    from trimtab.encoders.onnx_export import export_onnx

    example = torch.randint(0, 256, (2, 224, 224, 3), dtype=torch.uint8)
    export_onnx(image_tower(), (example,), ["pixels"], [{0: "images"}], folder / "image.onnx")


def export_text_tower(folder: Path) -> None:
    """Write text.onnx and, beside it, tokenizer.json."""
    import torch

    from trimtab.encoders.lite.towers import SentenceEncoder
    from trimtab.encoders.onnx_export import export_onnx

    example = (torch.randint(1000, 2000, (2, 6)), torch.tensor([[1] * 6, [1] * 4 + [0] * 2]))
    shape = {0: "texts", 1: "length"}
    limits = {"length": LONGEST_TEXT}
    export_onnx(SentenceEncoder().eval(), example, ["tokens", "mask"], [shape, shape], folder / "text.onnx", limits)
    text_tokens().save(folder / "tokenizer.json")


def fit_bridge(folder: Path, embed: Callable[[Sequence[str]], Array]) -> None:
    """Write bridge.safetensors; `embed` is the text tower."""
    import torch
    from safetensors.numpy import save_file

    weights = torch.load(image_weights(), map_location="cpu", weights_only=True)
    save_file({"bridge": bridge_to(weights["_fc.weight"].numpy(), embed)}, folder / "bridge.safetensors")


def bridge_to(classifier: Array, embed: Callable[[Sequence[str]], Array]) -> Array:
    """The bridge from the text tower's space to that of the features which this last layer (1000, d) classifies."""
    directions = classifier - classifier.mean(axis=0)
    class_names = CLASS_NAMES.read_text(encoding="utf-8").splitlines()
    embeddings = [embed([form.format(name) for name in class_names]) for form in FORMS]
    return ridge_regression(np.concatenate(embeddings), np.tile(directions, (len(FORMS), 1)), RIDGE * len(FORMS))


def ridge_regression(inputs: Array, targets: Array, penalty: float) -> Array:
    """The matrix M that minimizes |inputs M - targets|^2 + penalty |M|^2, in closed form."""
    x, y = inputs.astype(np.float64), targets.astype(np.float64)
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).astype(np.float32)
