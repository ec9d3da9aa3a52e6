"""From texts to the numbers that a text tower reads, the same way for every encoder."""

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError

Tokens = NDArray[np.int64]


class Tokenize(Protocol):
    """Texts -> (n, length) token numbers and a mask of the same shape that is 0 on padding."""

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, Tokens]:
        """Encode a batch."""


class TextTokens:
    """A `tokenizers.Tokenizer` with its context length and padding, which it keeps when saved."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.context: int = tokenizer.truncation["max_length"]
        self.fixed_length: bool = tokenizer.padding["length"] is not None
        self._warned = False

    @classmethod
    def prepare(
        cls, tokenizer: Any, context: int, pad: str, *, pad_to_context: bool = False, direction: str = "right"
    ) -> Self:
        """Set how long a text may be and how short ones are filled up.

        Texts that are too long lose words from their end; the tokens that mark the end of a text are kept.
        """
        pad_id = tokenizer.token_to_id(pad)
        if pad_id is None:
            raise TrimtabError(f"The tokenizer does not know its own padding token {pad!r}; its files do not match.")
        tokenizer.enable_truncation(context)
        length = context if pad_to_context else None
        tokenizer.enable_padding(pad_id=pad_id, pad_token=pad, length=length, direction=direction)
        return cls(tokenizer)

    @classmethod
    def open(cls, file: Path) -> Self:
        """A tokenizer that `save` wrote, or any tokenizer.json that states its truncation and padding."""
        tokenizer = read_tokenizer(file)
        if tokenizer.truncation is None or tokenizer.padding is None:
            raise TrimtabError(f"{file} states no truncation and padding; write it with `trimtab export`.")
        return cls(tokenizer)

    def save(self, file: Path) -> None:
        """Write everything, context length and padding too, into one tokenizer.json."""
        self._tokenizer.save(str(file))

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, Tokens]:
        """Token numbers and mask; warns once if a text did not fit."""
        encoded = self._tokenizer.encode_batch(list(texts))
        for text, tokens in zip(texts, encoded, strict=True):
            if tokens.overflowing and not self._warned:
                self._warned = True
                start = textwrap.shorten(text, 60)
                warnings.warn(
                    f"The text {start!r} is longer than the {self.context} tokens that this encoder reads; "
                    "its end is cut off (said once, there may be others).",
                    stacklevel=3,
                )
        ids = np.array([tokens.ids for tokens in encoded], np.int64)
        mask = np.array([tokens.attention_mask for tokens in encoded], np.int64)
        return ids, mask


def read_tokenizer(file: Path) -> Any:
    """The `tokenizers.Tokenizer` in a tokenizer.json."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise TrimtabError(f"{file} is not a tokenizer file: {error}") from error
