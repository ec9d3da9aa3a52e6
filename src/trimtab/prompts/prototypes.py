"""Text prototypes: one unit vector per class, the normalized mean of its sentences' unit features.

They cost one text encoding per sentence (tens of thousands with CuPL on ImageNet), so they are kept by content:
equal encoder and equal sentences never encode twice, and an interrupted run continues where it stopped.
"""

import hashlib
import io
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import ABANDONED, cache_folder, sweep, write_whole
from trimtab.prompts.sentences import Cupl, prompts_for

SENTENCES_AT_A_TIME = 256
SECONDS_BETWEEN_SAVES = 20.0


@runtime_checkable
class TextEncoder(Protocol):
    """What prototypes need of an encoder."""

    @property
    def dim(self) -> int:
        """The number of feature dimensions, d."""

    @property
    def fingerprint(self) -> str:
        """A hash: equal fingerprints give equal features."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences -> (n, d) features."""


def text_prototypes(
    encoder: TextEncoder,
    class_names: Sequence[str],
    templates: str | Sequence[str] = "photo",
    cupl: Cupl | Path | str | None = None,
) -> NDArray[np.float32]:
    """(C, d) unit prototypes. Every sentence of a class weighs the same, as in the released programs of the field."""
    from rich.console import Console
    from rich.progress import Progress

    arguments.instance("encoder", encoder, TextEncoder, "an encoder, as trimtab.load_encoder gives")
    prompts = prompts_for(class_names, templates, cupl)
    sentences = list(prompts.values())
    kept = cache_folder("text") / f"{_key(encoder, prompts)}.npy"
    prototypes = _read(kept, (len(sentences), encoder.dim))
    to_do = np.flatnonzero(np.isnan(prototypes).any(axis=1))
    if len(to_do) == 0:
        return prototypes
    console = Console(stderr=True)
    saved = time.monotonic()
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("Text prototypes", total=len(sentences), completed=len(sentences) - len(to_do))
            for classes in _groups(sentences, to_do):
                prototypes[classes] = _encoded(encoder, [sentences[c] for c in classes])
                progress.advance(task, len(classes))
                if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    _write(kept, prototypes)
                    saved = time.monotonic()
    finally:  # also when interrupted: classes that are done stay done
        _write(kept, prototypes)
    return prototypes


def _groups(sentences: Sequence[Sequence[str]], to_do: NDArray[np.int64]) -> Iterator[list[int]]:
    """Classes in groups that fill the text encoder's batches without holding everything at once."""
    group: list[int] = []
    for c in to_do.tolist():
        group.append(c)
        if sum(len(sentences[member]) for member in group) >= SENTENCES_AT_A_TIME:
            yield group
            group = []
    if group:
        yield group


def _encoded(encoder: TextEncoder, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """One prototype per class; a sentence that several classes share is encoded once."""
    row_of: dict[str, int] = {}
    for of_class in sentences:
        for sentence in of_class:
            row_of.setdefault(sentence, len(row_of))
    given = arguments.numbers("what encode_texts gives", encoder.encode_texts(list(row_of)))
    if given.shape != (len(row_of), encoder.dim):
        wanted = (len(row_of), encoder.dim)
        raise TrimtabError(
            f"encode_texts gave an array of shape {given.shape} for {len(row_of)} texts; it must give {wanted}."
        )
    features = _unit(given.astype(np.float64), list(row_of))
    means = np.stack([features[[row_of[sentence] for sentence in of_class]].mean(axis=0) for of_class in sentences])
    return _unit(means, [of_class[0] for of_class in sentences]).astype(np.float32)


def _unit(vectors: NDArray[np.float64], sentences: Sequence[str]) -> NDArray[np.float64]:
    """Rows of length one; `sentences` name the row that cannot be one."""
    lengths = np.linalg.norm(vectors, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise TrimtabError(f"The encoder gave no usable feature for {sentences[bad[0]]!r}: NaN, infinity or all zeros.")
    return vectors / lengths[:, None]


def _key(encoder: TextEncoder, prompts: dict[str, tuple[str, ...]]) -> str:
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for sentences in prompts.values():
        digest.update(b"\0class")
        for sentence in sentences:
            digest.update(b"\0" + sentence.encode())
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    """What is kept, with NaN in the rows that are missing or damaged."""
    nothing = np.full(shape, np.nan, dtype=np.float32)
    try:
        kept = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return nothing
    if kept.shape != shape or kept.dtype != np.float32:
        return nothing
    whole = np.abs(np.linalg.norm(kept, axis=1) - 1) < 1e-3
    return np.where(whole[:, None], kept, nothing)


def _write(path: Path, prototypes: NDArray[np.float32]) -> None:
    sweep(path.parent, untouched=ABANDONED)
    content = io.BytesIO()
    np.save(content, prototypes)
    write_whole(path, content.getvalue())
