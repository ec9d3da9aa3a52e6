"""Encoders: each turns images and texts into features of one space."""

import importlib
from typing import Final

from trimtab import arguments
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError

__all__ = ["Encoder", "load_encoder"]

# What stands before the colon -> (module with a function `load(name, device, precision)`, what a name looks like,
# the extra that installs what the module imports).
KINDS: Final[dict[str, tuple[str, str, str]]] = {
    "lite": ("trimtab.encoders.lite", "lite", "lite"),
    "hf": ("trimtab.encoders.hf", "hf:<id or folder>", "clip"),
    "openai": ("trimtab.encoders.openai", "openai:<ViT-B/16, RN50, ... or file.pt>", "clip"),
    "openclip": ("trimtab.encoders.openclip", "openclip:<model>/<weights or file>", "clip"),
    "onnx": ("trimtab.encoders.onnx", "onnx:<folder>", "onnx"),
    "maple": ("trimtab.encoders.maple", "maple:<file>+<encoder>", "clip"),
}
PRECISIONS: Final = ("fp32", "fp16", "bf16", "int8")


def load_encoder(name: str, *, device: str = "cpu", precision: str = "fp32") -> Encoder:
    """The encoder called `name`; heavy packages are imported only when their kind is asked for.

    `device` is cpu, cuda, cuda:<n> or mps; `precision` is fp32, fp16, bf16 or int8.
    """
    arguments.instance("name", name, str, "an encoder's name")
    arguments.text("device", device)
    kind, _, rest = name.partition(":")
    if kind not in KINDS or (kind == "lite") != (name == "lite") or (kind != "lite" and not rest):
        choices = ", ".join(example for _, example, _ in KINDS.values())
        raise TrimtabError(f"There is no encoder {name!r}; the choices are {choices}.")
    arguments.word("precision", precision, PRECISIONS)
    module, _, extra = KINDS[kind]
    try:
        encoder: Encoder = importlib.import_module(module).load(name, device, precision)
    except ImportError as error:
        raise TrimtabError(f"{name!r} needs {error.name}; run: pip install 'trimtab[{extra}]'") from error
    return encoder
