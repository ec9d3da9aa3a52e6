"""Learned contexts on disk: safetensors with a checked header, and the checkpoints that CoOp's authors released.

A context is L word embeddings that stand around every class name (or, class-specific, around one class's). It belongs
to the text encoder that it was learned with, and it owes what it knows to the labels of some data: the file says both.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT: Final = "trimtab-context"
VERSION: Final = 1
POSITIONS: Final = ("end", "middle", "front")  # of the class name among the context's vectors
TRAINED_ON: Final = "trained on labels of"  # the words by which every table knows what owes something to labels


@dataclass(frozen=True, eq=False)
class LearnedContext:
    """A context, (L, w) or (C, L, w), and where it comes from.

    `words` are those that learning started from, if any; `class_names` those of a class-specific context. A released
    checkpoint names no encoder: then `encoder` and `encoder_fingerprint` are empty, and only the width can be checked.
    """

    vectors: Array = field(repr=False)
    position: str
    trained_on: str  # the data and the number of shots
    words: str = ""
    class_names: tuple[str, ...] = ()
    encoder: str = ""
    encoder_fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.vectors.ndim not in (2, 3) or not self.vectors.size:
            raise TrimtabError(f"A context must have the shape (L, w) or (classes, L, w), not {self.vectors.shape}.")
        if not np.isfinite(self.vectors).all():
            raise TrimtabError("The context holds NaN or infinity; learn it again with a smaller learning rate.")
        if self.position not in POSITIONS:
            raise TrimtabError(f"A class name stands at {', '.join(POSITIONS)} of a context, not {self.position!r}.")

    @property
    def class_specific(self) -> bool:
        """Whether every class has a context of its own; such a context serves only the classes it was learned for."""
        return self.vectors.ndim == 3

    def __str__(self) -> str:
        """One line for manifests and tables, which says whose labels it owes."""
        own = " per class" if self.class_specific else ""
        return f"{self.vectors.shape[-2]} learned vectors{own} ({self.position}), {TRAINED_ON} {self.trained_on}"

    def check(self, encoder: Any, class_names: tuple[str, ...], width: int | None = None) -> None:
        """Refuse an encoder, or for a class-specific context classes, that it was not learned with."""
        if self.encoder_fingerprint and self.encoder_fingerprint != encoder.fingerprint:
            raise TrimtabError(
                f"The context was learned with {self.encoder} (fingerprint {self.encoder_fingerprint[:12]}), not with "
                f"{encoder.name} ({encoder.fingerprint[:12]}); use that encoder, or learn a context for this one."
            )
        if width is not None and self.vectors.shape[-1] != width:
            raise TrimtabError(
                f"The context's vectors have {self.vectors.shape[-1]} numbers, but the words of {encoder.name} have "
                f"{width}; it was learned with another text encoder."
            )
        if not self.class_specific:
            return
        if self.class_names and self.class_names != class_names:
            raise TrimtabError(
                f"The context is class-specific: it was learned for {len(self.class_names)} other classes "
                f"({self.class_names[0]!r}, ...); use one that all classes share."
            )
        if len(self.vectors) != len(class_names):
            raise TrimtabError(
                f"The context is class-specific, for {len(self.vectors)} classes, but there are {len(class_names)} "
                "here; use one that all classes share."
            )


def write_context(path: Path, context: LearnedContext) -> None:
    """Write a context; an older file stays whole until the new one is."""
    about = {key: value for key, value in asdict(context).items() if key != "vectors"}
    header = json.dumps({"format": FORMAT, "version": VERSION, **about}, sort_keys=True)
    vectors = np.ascontiguousarray(context.vectors, np.float32)
    metadata = {"trimtab": header, "checksum": _checksum(header, vectors)}
    try:
        write_whole(path, to_bytes({"ctx": vectors}, metadata))
    except OSError as error:
        raise TrimtabError(f"The context cannot be written to {path}: {error.strerror or error}.") from None


def read_context(path: Path | str, *, position: str = "end") -> LearnedContext:
    """The context in a file: one of ours, or a released checkpoint of CoOp (`state_dict` with "ctx").

    A released checkpoint does not say where the class name stands; `position` is for it only.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise TrimtabError(f"There is no context file {file}; learn one with `trimtab learn coop`.")
    if file.suffix == ".safetensors":
        return _read_own(file)
    return _read_released(file, position)


def _read_own(file: Path) -> LearnedContext:
    try:
        with safe_open(file, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            header = json.loads(metadata.get("trimtab", "{}"))
            vectors = opened.get_tensor("ctx")
    except OSError as error:
        raise TrimtabError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (SafetensorError, ValueError):
        raise TrimtabError(f"{file} is not a whole context file (truncated, or another kind of file).") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TrimtabError(f"{file} is a safetensors file, but not a context written by `trimtab learn`.")
    if header.get("version") != VERSION:
        raise TrimtabError(
            f"{file} has context format {header.get('version')}, this trimtab reads {VERSION}; learn it again."
        )
    if metadata.get("checksum") != _checksum(metadata["trimtab"], vectors):
        raise TrimtabError(f"{file} has been changed or damaged since it was written (its checksum differs).")
    about = {known.name: header[known.name] for known in fields(LearnedContext) if known.name != "vectors"}
    return LearnedContext(vectors, **{**about, "class_names": tuple(about["class_names"])})


def _read_released(file: Path, position: str) -> LearnedContext:
    """What CoOp's program saves: beside "ctx" stand the words of its own classes, which must not be used for others."""
    from trimtab.encoders.openai.checkpoint import read_checkpoint

    tensors = read_checkpoint(file)
    found = next((tensors[name] for name in ("ctx", "prompt_learner.ctx") if name in tensors), None)
    if found is None:
        raise TrimtabError(f"{file} holds no context of CoOp's kind: it has no tensor called 'ctx'.")
    return LearnedContext(found.numpy(), position, trained_on=f"unnamed data ({file.name}, a released checkpoint)")


def _checksum(header: str, vectors: Array) -> str:
    return hashlib.sha256(header.encode() + str(vectors.shape).encode() + vectors.tobytes()).hexdigest()
