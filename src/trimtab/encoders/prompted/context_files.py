"""Contexts on disk: trimtab's own files, and the checkpoints that CoOp's program writes."""

import hashlib
import json
import pickle
from collections import OrderedDict
from collections.abc import Sequence
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
TRAINED_ON = "trained on labels of"  # the words by which a table knows what owes something to labels

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ContextFile:
    """A context, (L, w) or (C, L, w), and what its file says about where it belongs and whose labels it owes."""

    context: Array
    position: str | None = None
    encoder: str | None = None
    encoder_fingerprint: str | None = None
    start_mark: Array | None = None  # (w,) the start mark's embedding in the backbone it was learned with
    trained_on: str = ""  # the labeled data, and the number of shots
    words: str = ""  # that learning started from
    class_names: tuple[str, ...] = ()  # of a class-specific context
    learned_as: str = ""  # a digest of all that decided it, by which the same command knows its own work

    def __str__(self) -> str:
        """One line for manifests and tables."""
        own = " per class" if self.context.ndim == 3 else ""
        place = f" ({self.position})" if self.position else ""
        return f"{self.context.shape[-2]} learned vectors{own}{place}, {TRAINED_ON} {self.trained_on or 'unnamed data'}"


def save_context(
    path: str | Path,
    context: Array,
    *,
    position: str,
    encoder: str,
    encoder_fingerprint: str,
    trained_on: str = "",
    words: str = "",
    class_names: Sequence[str] = (),
    learned_as: str = "",
) -> ContextFile:
    """Write a learned context as safetensors, with what is needed to refuse it elsewhere and to say whose labels."""
    from safetensors.numpy import save

    vectors = np.ascontiguousarray(context, np.float32)
    if not np.isfinite(vectors).all():
        raise TrimtabError("The context holds NaN or infinity; learn it again with a smaller learning rate.")
    about = {
        "format": FORMAT,
        "position": position,
        "encoder": encoder,
        "encoder_fingerprint": encoder_fingerprint,
        "trained_on": trained_on,
        "words": words,
        "class_names": list(class_names),
        "learned_as": learned_as,
    }
    header = json.dumps(about, sort_keys=True)
    content = save({KEY: vectors}, metadata={FORMAT: header, "checksum": _checksum(header, vectors)})
    try:
        write_whole(Path(path).expanduser(), content)
    except OSError as error:
        raise TrimtabError(f"The context cannot be written to {path}: {error.strerror or error}.") from None
    return _described(vectors, about)


def read_context(path: str | Path) -> ContextFile:
    """A context from a file of `save_context`, or from a checkpoint of CoOp's program (.pth, .pt, .tar-50, ...)."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise TrimtabError(f"There is no context file {file}; learn one with `trimtab learn coop`.")
    return _own(file) if file.suffix == ".safetensors" else _coop(file)


def _own(file: Path) -> ContextFile:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as content:
            metadata = content.metadata() or {}
            context = np.asarray(content.get_tensor(KEY), np.float32)
        header = metadata.get(FORMAT, "{}")
        about = json.loads(header)
    except (OSError, SafetensorError, ValueError) as error:
        raise TrimtabError(f"{file} does not hold a context called {KEY!r}: {first_line(error)}") from error
    ours = about or "checksum" in metadata
    if ours and metadata.get("checksum") != _checksum(header, context):
        raise TrimtabError(f"{file} has been changed or damaged since it was written (its checksum differs).")
    position = about.get("position")
    if position is not None and position not in POSITIONS:
        raise TrimtabError(f"{file} puts class names at {position!r}; a position is {', '.join(POSITIONS)}.")
    return _described(context, about)


def _described(context: Array, about: dict[str, Any]) -> ContextFile:
    return ContextFile(
        context,
        about.get("position"),
        about.get("encoder"),
        about.get("encoder_fingerprint"),
        trained_on=about.get("trained_on", ""),
        words=about.get("words", ""),
        class_names=tuple(about.get("class_names", ())),
        learned_as=about.get("learned_as", ""),
    )


def _checksum(header: str, context: Array) -> str:
    return hashlib.sha256(f"{header}{context.shape}".encode() + np.ascontiguousarray(context).tobytes()).hexdigest()


def _coop(file: Path) -> ContextFile:
    """CoOp's checkpoint: its prefix and suffix belong to the classes it was trained on and are not used.

    But the prefix is the embedding of the start mark, which tells backbones apart.
    """
    try:
        tensors = read_tensors(file)
    except TrimtabError as error:
        raise TrimtabError(f"{file} is not a context file; make one with `trimtab learn coop`.") from error
    tensors = {name.removeprefix("prompt_learner."): value for name, value in tensors.items()}
    if any(name.startswith("compound_prompts") for name in tensors):
        raise TrimtabError(f"{file} holds MaPLe's deep prompts, not a context; load it as an encoder.")
    if KEY not in tensors:
        raise TrimtabError(f"{file} does not hold a context: none of its tensors is called {KEY!r}.")
    prefix = tensors.get("token_prefix")
    return ContextFile(
        tensors[KEY],
        start_mark=None if prefix is None else prefix.reshape(-1, prefix.shape[-1])[0],
        trained_on=f"unnamed data ({file.name}, a released checkpoint)",
    )


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
