"""Contexts on disk: trimtab's own files, and the checkpoints that CoOp's program writes."""

import json
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import first_line
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT = "trimtab-context"
KEY = "ctx"  # as in CoOp's checkpoints
POSITIONS = ("end", "middle", "front")

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ContextFile:
    """A context, (L, w) or (C, L, w), and what its file says about where it belongs."""

    context: Array
    position: str | None = None
    encoder: str | None = None
    encoder_fingerprint: str | None = None
    start_mark: Array | None = None  # (w,) the start mark's embedding in the backbone it was learned with


def save_context(path: str | Path, context: Array, *, position: str, encoder: str, encoder_fingerprint: str) -> None:
    """Write a learned context as safetensors, with what is needed to refuse it elsewhere."""
    from safetensors.numpy import save

    about = {"format": FORMAT, "position": position, "encoder": encoder, "encoder_fingerprint": encoder_fingerprint}
    content = save({KEY: np.ascontiguousarray(context, np.float32)}, metadata={FORMAT: json.dumps(about)})
    write_whole(Path(path).expanduser(), content)


def read_context(path: str | Path) -> ContextFile:
    """A context from a file of `save_context`, or from a checkpoint of CoOp's program (.pth, .pt, .tar-50, ...)."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise TrimtabError(f"There is no context file {file}.")
    return _own(file) if file.suffix == ".safetensors" else _coop(file)


def _own(file: Path) -> ContextFile:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as content:
            about = json.loads((content.metadata() or {}).get(FORMAT, "{}"))
            context = np.asarray(content.get_tensor(KEY), np.float32)
    except (OSError, SafetensorError, ValueError) as error:
        raise TrimtabError(f"{file} does not hold a context called {KEY!r}: {first_line(error)}") from error
    position = about.get("position")
    if position is not None and position not in POSITIONS:
        raise TrimtabError(f"{file} puts class names at {position!r}; a position is {', '.join(POSITIONS)}.")
    return ContextFile(context, position, about.get("encoder"), about.get("encoder_fingerprint"))


def _coop(file: Path) -> ContextFile:
    """CoOp's checkpoint: its prefix and suffix belong to the classes it was trained on and are not used.

    But the prefix is the embedding of the start mark, which tells backbones apart.
    """
    tensors = read_tensors(file)
    tensors = {name.removeprefix("prompt_learner."): value for name, value in tensors.items()}
    if any(name.startswith("compound_prompts") for name in tensors):
        raise TrimtabError(f"{file} holds MaPLe's deep prompts, not a context; load it as an encoder.")
    if KEY not in tensors:
        raise TrimtabError(f"{file} does not hold a context: none of its tensors is called {KEY!r}.")
    prefix = tensors.get("token_prefix")
    return ContextFile(tensors[KEY], start_mark=None if prefix is None else prefix.reshape(-1, prefix.shape[-1])[0])


def read_tensors(file: Path) -> dict[str, Array]:
    """The tensors of a torch checkpoint, in float32.

    Training programs pickle optimizers and schedulers beside the weights; these are skipped, and no code of the file
    runs.
    """
    import torch

    reading: Any = SimpleNamespace(
        __name__=__name__,
        Unpickler=_TensorsOnly,
        load=lambda stream, **options: _TensorsOnly(stream, **options).load(),
    )
    try:
        content = torch.load(file, map_location="cpu", pickle_module=reading, weights_only=False)
    except Exception as error:  # torch raises many kinds for files that are not checkpoints
        raise TrimtabError(f"{file} is not a checkpoint that torch can read: {first_line(error)}") from error
    for wrapper in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict):
        raise TrimtabError(f"{file} holds no dictionary of tensors.")
    return {
        str(name): value.detach().float().numpy() for name, value in content.items() if isinstance(value, torch.Tensor)
    }


class _Skipped(dict[Any, Any]):
    """Stands for everything in a pickle that is not a tensor; it can be made and filled, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """As lists and deques have it."""

    def extend(self, items: Any) -> None:
        """As lists and deques have it."""


class _TensorsOnly(pickle.Unpickler):
    """Knows what tensors are made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The few functions that rebuild tensors; torch handles their storages itself."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"):
            return super().find_class(module, name)
        return _Skipped
