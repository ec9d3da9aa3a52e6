"""From the name a user types to an encoder."""

import importlib

from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError

# What stands before the colon -> (module with a function `load(name, device, precision)`, what a name looks like).
KINDS: dict[str, tuple[str, str]] = {
    "lite": ("trimtab.encoders.lite", "lite"),
}
PRECISIONS = ("fp32", "fp16", "bf16")


def load_encoder(name: str, *, device: str = "cpu", precision: str = "fp32") -> Encoder:
    """The encoder called `name`; heavy packages are imported only when their kind is asked for.

    `device` is cpu, cuda, cuda:<n> or mps; `precision` is fp32, fp16 or bf16.
    """
    kind = name.partition(":")[0]
    if kind not in KINDS or (kind == "lite") != (name == "lite"):
        choices = ", ".join(example for _, example in KINDS.values())
        raise TrimtabError(f"There is no encoder {name!r}; the choices are {choices}.")
    if precision not in PRECISIONS:
        raise TrimtabError(f"There is no precision {precision!r}; the choices are {', '.join(PRECISIONS)}.")
    encoder: Encoder = importlib.import_module(KINDS[kind][0]).load(name, device, precision)
    return encoder
