"""Reading the tensors of a CLIP checkpoint, whatever it was wrapped in."""

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trimtab.encoders.base import first_line
from trimtab.errors import TrimtabError

# What OpenAI's archives and old open_clip checkpoints store beside the weights.
NOT_WEIGHTS = ("input_resolution", "context_length", "vocab_size", "attn_mask")


def read_checkpoint(file: Path) -> dict[str, Tensor]:
    """The weights of a TorchScript archive, a state dict (.pt, .pth, .bin) or a .safetensors file, in float32."""
    if not file.is_file():
        raise TrimtabError(f"There is no checkpoint {file}.")
    try:
        weights = _read(file)
    except Exception as error:  # torch raises many kinds for files that are not checkpoints
        raise TrimtabError(f"{file} is not a checkpoint that torch can read safely: {first_line(error)}") from error
    named = {_plain_name(name): value for name, value in weights.items() if isinstance(value, Tensor)}
    return {
        name: value.float() if value.is_floating_point() else value
        for name, value in named.items()
        if name not in NOT_WEIGHTS
    }


def _read(file: Path) -> Mapping[str, Any]:
    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(file)
    if _is_torchscript(file):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the format is old, but so are the files
            return dict(torch.jit.load(str(file), map_location="cpu").state_dict())  # type: ignore[no-untyped-call]
    content = torch.load(file, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):  # training programs put other things beside the weights
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise ValueError("it holds no dictionary of tensors")
    return content


def _is_torchscript(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _plain_name(name: str) -> str:
    """Without what data-parallel training and open_clip's separate text tower put in front."""
    return name.removeprefix("module.").removeprefix("text.")
