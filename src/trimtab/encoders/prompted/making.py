"""From an encoder's parts to a text tower that starts at words, at an array or at a learned context."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trimtab.encoders.prompted import GivenContext
from trimtab.encoders.prompted.context_files import POSITIONS, Array, ContextFile, read_context
from trimtab.encoders.prompted.tower import PromptedTower, TextModel
from trimtab.encoders.prompted.wording import Wording, tokens_of
from trimtab.encoders.tokens import Tokenize
from trimtab.errors import TrimtabError
from trimtab.prompts.names import words_of

SAME_MARK = 1e-2  # how far a start mark saved in half precision may be from the encoder's, relative to its length


def make_tower(
    text: TextModel,
    tokenize: Tokenize,
    class_names: Sequence[str],
    *,
    words: str,
    position: str | None,
    context: GivenContext,
    encoder: str,
    encoder_fingerprint: str,
    device: Any = "cpu",
) -> PromptedTower:
    """See `TorchEncoder.text_tower`."""
    if position is not None and position not in POSITIONS:
        raise TrimtabError(f"There is no position {position!r} of a class name; choose from {', '.join(POSITIONS)}.")
    wording = Wording.of(class_names, tokenize)
    if context is None:
        given = ContextFile(_embedded(words, text, tokenize, device))
    elif isinstance(context, (str, Path)):
        given = read_context(context)
        _check_origin(given, context, encoder, encoder_fingerprint, text, wording.start, device)
        _check_classes(given, context, class_names)
    else:
        given = ContextFile(np.asarray(context, np.float32))
    if position is not None and given.position not in (None, position):
        raise TrimtabError(f"{context} was learned with class names at the {given.position}, not at the {position}.")
    return PromptedTower(
        text,
        wording,
        given.context,
        position or given.position or "end",
        encoder=encoder,
        encoder_fingerprint=encoder_fingerprint,
        device=device,
    )


def _embedded(words: str, text: TextModel, tokenize: Tokenize, device: Any) -> Array:
    """(L, w): the embeddings of the words' tokens."""
    ids = tokens_of([words_of(words)], tokenize)[0][1:-1]
    if not ids:
        raise TrimtabError("A context needs at least one word, such as 'a photo of a'.")
    array: Array = text.embed(torch.tensor(ids, device=device)).cpu().numpy()
    return array


def _check_origin(
    given: ContextFile, file: Any, encoder: str, fingerprint: str, text: TextModel, start: int, device: Any
) -> None:
    """Refuse a context that was learned with another backbone, if its file lets us know."""
    if given.encoder_fingerprint not in (None, fingerprint):
        raise TrimtabError(f"{file} was learned with {given.encoder}, not with these weights of {encoder}.")
    if given.start_mark is None:
        return
    mark = text.embed(torch.tensor([start], device=device))[0].cpu().numpy()
    if mark.shape != given.start_mark.shape or (
        np.linalg.norm(mark - given.start_mark) > SAME_MARK * np.linalg.norm(mark)
    ):
        raise TrimtabError(
            f"{file} was learned with another backbone: its start mark is not that of {encoder}; "
            "use the checkpoint that belongs to this encoder."
        )


def _check_classes(given: ContextFile, file: Any, class_names: Sequence[str]) -> None:
    """Refuse a class-specific context for other classes, or for the same ones in another order."""
    if given.class_names and given.class_names != tuple(class_names):
        raise TrimtabError(
            f"{file} is class-specific: it was learned for {len(given.class_names)} classes in their order "
            f"({given.class_names[0]!r}, ...), not for these; use a context that all classes share."
        )
