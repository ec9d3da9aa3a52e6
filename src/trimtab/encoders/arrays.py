"""What every encoder does to the arrays that come in and go out."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError


def checked_pixels(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The images as one contiguous (B, side, side, 3) array of bytes, or a clear refusal."""
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != (side, side, 3):
        raise TrimtabError(
            f"Images must come as bytes of the shape (images, {side}, {side}, 3), not {pixels.dtype} {pixels.shape}; "
            f"resize them to {side} x {side} RGB first."
        )
    return np.ascontiguousarray(pixels)


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list; a bare string is refused, because its letters would be taken for texts."""
    if isinstance(texts, str):
        raise TrimtabError(f"Texts must come as a list; give [{texts!r}] instead of {texts!r}.")
    for text in texts:
        if not isinstance(text, str):
            raise TrimtabError(f"Every text must be a string; {text!r} is a {type(text).__name__}.")
        if not text.strip():
            raise TrimtabError("A text is empty; give every class a name.")
    return list(texts)


def chunks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover `total` items in order."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row divided by its length, in float32."""
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
