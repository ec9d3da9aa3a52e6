"""What trimtab needs of an image-and-text encoder, and what every encoder does with what comes in and goes out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.image_prompts import ImagePrompts


@runtime_checkable
class Encoder(Protocol):
    """A frozen pair of towers that map images and texts into one space."""

    @property
    def name(self) -> str:
        """How the user chose it: "lite", "hf:openai/clip-vit-base-patch16", ..."""

    @property
    def dim(self) -> int:
        """The number of feature dimensions, d."""

    @property
    def input_size(self) -> int:
        """Side of the square images that `encode_images` takes, in pixels."""

    @property
    def logit_scale(self) -> float:
        """What a cosine is multiplied by before the softmax (exp of the checkpoint's parameter)."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and preprocessing: equal fingerprints give equal features."""

    def encode_images(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, input_size, input_size, 3) RGB bytes -> (B, d) unit features; mean and deviation are applied inside."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences -> (n, d) unit features."""


def image_rows(encode: Callable[[NDArray[np.uint8]], Any], pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(B, d): what an encoder, perhaps one of the user's own, makes of B images; one row for each, or it is refused."""
    rows = arguments.numbers("what encode_images gives", encode(pixels))
    if rows.ndim != 2 or len(rows) != len(pixels):
        count = len(pixels)
        raise TrimtabError(
            f"encode_images gave an array of shape {rows.shape} for {count} images; it must give ({count}, d)."
        )
    return rows.astype(np.float32, copy=False)


def images_per_call(encoder: Encoder) -> int | None:
    """How many images to encode together, where an encoder says so: one, if its arithmetic depends on the batch."""
    return getattr(encoder, "images_per_call", None)


def image_prompts(encoder: Encoder, class_names: Sequence[str], method: str) -> ImagePrompts:
    """The prompts inside an encoder's towers, for a method that tunes them; most encoders have none."""
    bring = getattr(encoder, "image_prompts", None)
    if bring is None:
        raise TrimtabError(
            f"{method} tunes prompts inside the towers, but {encoder.name} has none; use an encoder "
            "maple:<file>+<encoder>, whose file comes from `trimtab learn maple`."
        )
    found: ImagePrompts = bring(class_names)
    return found


def checked_pixels(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The images as one contiguous (B, side, side, 3) array of bytes, or a clear refusal."""
    pixels = arguments.numbers("pixels", pixels)
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
    if not isinstance(texts, Iterable):
        raise TrimtabError(f"Texts must come as a list, not as {arguments.shown(texts)}.")
    for text in texts:
        if not isinstance(text, str):
            raise TrimtabError(f"Every text must be a string; {text!r} is a {type(text).__name__}.")
        if not text.strip():
            raise TrimtabError("A text is empty; give every class a name.")
    return list(texts)


def unit_features(
    tower: Callable[[Any], NDArray[np.float32]], inputs: Sequence[str] | NDArray[np.uint8], at_once: int, dim: int
) -> NDArray[np.float32]:
    """(n, dim) unit rows: what `tower` makes of `inputs`, `at_once` of them at a time."""
    features = np.empty((len(inputs), dim), np.float32)
    for start in range(0, len(inputs), at_once):
        features[start : start + at_once] = tower(inputs[start : start + at_once])
    return unit_rows(features)


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row divided by its length."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))


def first_line(error: Exception) -> str:
    """The first line that says something: other libraries' messages can fill pages."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
