"""Where an image set's pixels come from: files, encoded bytes, or arrays. Each can be sent to another process."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files, decoded when they are asked for."""

    paths: Sequence[Path]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        from trimtab.images.decode import decode

        return decode(self.paths[index])


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Images held in memory as the bytes of their JPEG or PNG files; `ids` name them when one is damaged."""

    blobs: Sequence[bytes]
    ids: Sequence[str]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        return decoded_bytes(self.blobs[index], self.ids[index])


@dataclass(frozen=True, eq=False)
class GreyImages:
    """Grey images held in memory as one (N, H, W) array, given out with three equal channels."""

    pixels: NDArray[np.uint8]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) bytes."""
        return np.repeat(self.pixels[index][..., None], 3, axis=2)


def decoded_bytes(blob: bytes, name: str) -> NDArray[np.uint8]:
    """Decode an image's bytes; an error says which image it was."""
    from trimtab.images.decode import decode

    try:
        return decode(blob)
    except TrimtabError as error:
        raise TrimtabError(str(error).replace("The image given as bytes", name, 1)) from None
