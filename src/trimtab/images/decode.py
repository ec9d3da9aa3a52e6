"""From an image file of any kind to RGB bytes, safely."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import refuse_special

# Named, so that a file cannot reach one of Pillow's other readers (some start outside programs).
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
MAX_PIXELS = 89_478_485  # where Pillow begins to warn of a decompression bomb: a quarter of a gigabyte of RGB


def decode(
    source: Path | str | bytes, *, enough: int | None = None, most_pixels: int = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Read an image file, or its bytes, into (H, W, 3) RGB bytes, upright and with transparency on white.

    With `enough`, a JPEG file is decoded at a half, a quarter or an eighth of its size where its shorter side still has
    so many pixels: the decoder then leaves out the finest waves, and most of its work. One that says it has more than
    `most_pixels` is refused before it is decoded.
    """
    given = source if isinstance(source, bytes) else arguments.place("image", source)
    name = "The image given as bytes" if isinstance(given, bytes) else str(given)
    with _told(name, most_pixels, "is damaged and cannot be decoded"):
        if isinstance(given, Path):
            refuse_special(given)
        with Image.open(io.BytesIO(given) if isinstance(given, bytes) else given, formats=FORMATS) as image:
            if image.width * image.height > most_pixels:
                raise Image.DecompressionBombError
            if enough is not None and image.format == "JPEG":
                _decode_smaller(image, enough)
            image.load()
            return _rgb_bytes(image, name)


@contextmanager
def _told(name: str, most_pixels: int, fault: str) -> Iterator[None]:
    """Whatever an image raises while it is read, as one sentence."""
    try:
        yield
    except TrimtabError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TrimtabError(f"{name} has more than {most_pixels:,} pixels; make it smaller, or leave it out.") from None
    except UnidentifiedImageError:
        known = "JPEG, PNG, WebP, GIF, BMP, TIFF or PPM"
        raise TrimtabError(f"{name} is not an image that can be read ({known}); convert it, or leave it out.") from None
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:  # the system's word, not Pillow's
            raise TrimtabError(f"{name} cannot be read: {error.strerror}.") from None
        # On damaged files Pillow's readers raise nearly anything: struct.error, KeyError, ...
        raise TrimtabError(f"{name} {fault} ({error}); replace it, or leave it out.") from None


def _decode_smaller(image: Image.Image, enough: int) -> None:
    """Pillow takes the smallest scale at which the image is at least as large as it is asked for."""
    shorter = min(image.size)
    if shorter >= 2 * enough:
        image.draft(None, (-(-image.width * enough // shorter), -(-image.height * enough // shorter)))


def rgb_bytes(image: Image.Image) -> NDArray[np.uint8]:
    """A Pillow image of any mode as (H, W, 3) RGB bytes, upright and with transparency on white."""
    # One that was opened and not loaded is read only here; and it may be closed, which is no damage.
    with _told("The Pillow image", MAX_PIXELS, "cannot be decoded"):
        return check_image(_rgb_bytes(image, "The Pillow image"))


def check_image(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Refuse anything but (H, W, 3) bytes with at least one pixel."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        what = f"{image.dtype} of shape {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise TrimtabError(f"An image must be an array of RGB bytes (uint8) of shape (height, width, 3), not {what}.")
    if image.size == 0:
        raise TrimtabError(f"An image must hold at least one pixel; this one has the shape {image.shape}.")
    return image


def _rgb_bytes(image: Image.Image, name: str) -> NDArray[np.uint8]:
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        return np.repeat(_sixteen_bits_to_eight(image, name)[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise TrimtabError(f"{name} has floating-point pixels of unknown range; save it as 8-bit RGB.")
    if image.has_transparency_data:
        gray = image.convert("LA") if image.mode == "La" else image  # the only mode that Pillow converts in two steps
        image = gray.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def _sixteen_bits_to_eight(image: Image.Image, name: str) -> NDArray[np.uint8]:
    # Pillow's own conversion to 8 bits clips at 255 and turns 16-bit images white.
    gray = np.asarray(image).astype(np.int64)
    if gray.size and (gray.min() < 0 or gray.max() > 65535):
        raise TrimtabError(f"{name} has 32-bit pixels of unknown range; save it as 8-bit RGB.")
    return ((gray + 128) // 257).astype(np.uint8)
