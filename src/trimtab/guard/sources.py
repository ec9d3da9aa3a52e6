"""Sources: who sent an image, as a number that a state can hold."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError

NO_SOURCE = -1
NOBODY = np.full(1, NO_SOURCE, np.int64)  # who sent the image of most steps


def source_numbers(sources: Sequence[str | None] | None, images: int) -> NDArray[np.int64]:
    """(N,): the sources of N images as numbers."""
    if sources is None or (images == 1 and type(sources) is list and len(sources) == 1 and sources[0] is None):
        return NOBODY if images == 1 else np.full(images, NO_SOURCE, np.int64)
    if isinstance(sources, str) or not isinstance(sources, Sequence) or len(sources) != images:
        raise TrimtabError(f"sources must name one source (or None) for each of the {images} images.")
    for source in sources:
        if source is not None and not isinstance(source, str):
            arguments.text("a source", source)
    known = {source: source_number(source) for source in set(sources)}
    return np.array([known[source] for source in sources], np.int64)


def source_number(source: str | None) -> int:
    """A source's name as a number, the same in every process."""
    if source is None:
        return NO_SOURCE
    arguments.text("a source", source)
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "little") >> 1
