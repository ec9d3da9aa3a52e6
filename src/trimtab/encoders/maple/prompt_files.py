"""Files of learned prompts: ours (.safetensors, with a header that names their backbone) and the authors' checkpoints.

A checkpoint of the released program holds, beside the prompts, the whole backbone in half precision, embeddings of the
class names it was trained with (dropped: they are those of other classes), and objects of its training program, which
are never built.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trimtab.encoders.base import first_line
from trimtab.encoders.maple.learner import PromptLearner, learner_of
from trimtab.encoders.prompted.context_files import read_tensors
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT = "trimtab-maple"
CHECKSUM = "checksum"  # of all else in the file
PREFIX = "prompt_learner."
OF_OTHER_CLASSES = ("token_prefix", "token_suffix")
HALF = 2e-3  # relative rounding of weights that went through half precision, and a little


@dataclass(frozen=True, eq=False)
class SavedPrompts:
    """Prompts from a file, and what the file says of the backbone that they were learned for."""

    source: str
    learner: PromptLearner
    backbone: str = ""  # fingerprint; "": not stated
    class_embedding: NDArray[np.float32] | None = None  # of the backbone's image tower, where the file holds it
    about: Mapping[str, str] = field(default_factory=dict)


def prompts_fingerprint(learner: PromptLearner) -> str:
    """A hash of the prompts."""
    return _hash_of(learner.state_dict())


def write_prompts(file: Path, learner: PromptLearner, about: Mapping[str, str]) -> None:
    """Write prompts; `about` must hold the backbone's fingerprint."""
    write_tensors(file, learner.state_dict(), {"format": FORMAT, **about})


def write_tensors(file: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write a file that `read_own` reads, and refuses once a byte of it has changed."""
    from safetensors.torch import save

    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(file, save(held, {**about, CHECKSUM: _hash_of(held, about)}))


def read_own(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the header of a file that trimtab has written."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt") as opened:
            tensors, about = {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise TrimtabError(f"{file} is not a file of prompts that can be read: {first_line(error)}") from error
    checksum = about.pop(CHECKSUM, None)
    if about.get("format") == FORMAT and checksum != _hash_of(tensors, about):
        raise TrimtabError(f"{file} has been changed or damaged since it was written (its checksum differs).")
    return tensors, about


def read_prompts(file: Path) -> SavedPrompts:
    """Prompts that `trimtab learn maple` or MaPLe's released program wrote."""
    if not file.is_file():
        raise TrimtabError(f"There is no file of prompts {file}; make one with `trimtab learn maple`.")
    if file.suffix == ".safetensors":
        return prompts_from(*read_own(file), str(file))
    return prompts_from({name: torch.from_numpy(value) for name, value in read_tensors(file).items()}, {}, str(file))


def prompts_from(weights: Mapping[str, Tensor], about: Mapping[str, str], source: str) -> SavedPrompts:
    """The prompts among a checkpoint's tensors."""
    plain = {name.removeprefix("module."): value for name, value in weights.items()}
    nested = any(name.startswith(PREFIX) for name in plain)
    own = {name.removeprefix(PREFIX): value for name, value in plain.items() if not nested or name.startswith(PREFIX)}
    own = {name: value for name, value in own.items() if name not in OF_OTHER_CLASSES}
    try:
        learner = learner_of(own)
    except KeyError as error:
        raise TrimtabError(f"{source} does not hold MaPLe's prompts: it has no {error.args[0]}.") from error
    except (RuntimeError, ValueError) as error:
        raise TrimtabError(f"{source} does not hold MaPLe's prompts: {' '.join(str(error).split())[:200]}") from error
    if not all(bool(torch.isfinite(tensor).all()) for tensor in learner.state_dict().values()):
        raise TrimtabError(f"The prompts in {source} hold NaN or infinity; learn them again with a smaller rate.")
    first = plain.get("image_encoder.class_embedding")
    class_embedding = None if first is None else first.float().numpy()
    return SavedPrompts(source, learner, about.get("backbone", ""), class_embedding, about)


def check_backbone(saved: SavedPrompts, name: str, fingerprint: str, class_embedding: NDArray[np.float32]) -> None:
    """Refuse prompts that say they were learned for another backbone than the encoder `name`."""
    other = bool(saved.backbone) and saved.backbone != fingerprint
    if saved.class_embedding is not None:
        largest = float(np.abs(class_embedding).max())
        same_shape = saved.class_embedding.shape == class_embedding.shape
        other |= not same_shape or float(np.abs(saved.class_embedding - class_embedding).max()) > HALF * largest
    if other:
        raise TrimtabError(f"The prompts in {saved.source} were learned for another backbone than {name}; use theirs.")


def _hash_of(tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}:{tuple(tensor.shape)}:".encode() + tensor.detach().cpu().numpy().tobytes())
    for name, value in sorted((about or {}).items()):
        digest.update(f"{name}={value}\n".encode())
    return digest.hexdigest()
