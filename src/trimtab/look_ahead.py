"""LookAhead: what an encoder makes of one image after the other, while images ahead are being read and encoded.

Three things happen at once: threads decode files and cut views, one thread keeps the encoder busy with as many images
as are ready, and the caller takes in what comes out, in the order of the input. Nothing here learns, so whatever was
looked at ahead and never taken has left no trace.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import image_rows
from trimtab.errors import TrimtabError
from trimtab.images.loader import usable_cores
from trimtab.images.read_ahead import ReadAhead

VIEWS_AT_ONCE = 64
LONGEST_BATCH = 0.5  # seconds: so long may the first image of a batch wait for the others, and an interrupt for all
BATCHES_AHEAD = 2  # one in the encoder and one that waits for it, while the caller takes in a third

Item = TypeVar("Item")
Pixels: TypeAlias = NDArray[np.uint8]
Rows: TypeAlias = NDArray[Any]  # what a method sees of an image: (V, d) features, or (V, s, s, 3) pixels
Encode: TypeAlias = Callable[[Pixels], NDArray[np.float32]]
Closer: TypeAlias = Callable[[Any, Rows], Rows]


class LookAhead(Generic[Item]):
    """Iterate over (item, rows), or (item, error) where an image cannot be read.

    `views_of(item)` gives an image's (V, s, s, 3) views and is called from several threads; `encode` takes the views of
    several images, and `None` leaves them pixels. An encoder gets what is there: a full batch while images come fast,
    a single image where they come slowly, never more than `images_per_call`. Only a few batches are held at any time,
    however long the iterable is. `closer(item, rows)` may add rows to those of an image, and is called for one image
    after the other, in their order.
    """

    def __init__(
        self,
        items: Iterable[Item],
        views_of: Callable[[Item], Pixels],
        encode: Encode | None,
        *,
        views: int = 1,
        images_per_call: int | None = None,
        closer: Closer | None = None,
    ) -> None:
        self._items, self._views_of, self._encode, self._closer = items, views_of, encode, closer
        self._full = images_per_call or max(1, VIEWS_AT_ONCE // views)
        self._at_once = 1  # until it is known how long one takes

    def __iter__(self) -> Generator[tuple[Item, Rows | TrimtabError], None, None]:
        read = ReadAhead(self._items, self._views_of, ahead=max(self._full, usable_cores()) + self._full)
        encoder = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        batches: deque[Future[list[tuple[Item, Rows | TrimtabError]]]] = deque()
        try:
            while True:
                while len(batches) <= BATCHES_AHEAD:
                    batches.append(encoder.submit(self._next_batch, read))
                looked = batches.popleft().result()
                if not looked:
                    return
                yield from looked
        finally:  # also when the caller stops early
            read.close()
            encoder.shutdown(wait=True, cancel_futures=True)

    def _next_batch(self, read: ReadAhead[Item, Pixels]) -> list[tuple[Item, Rows | TrimtabError]]:
        taken = [(item, _made(work)) for item, work in read.take(self._at_once)]
        views = [made for _, made in taken if not isinstance(made, TrimtabError)]
        start = time.perf_counter()
        rows = iter(views if self._encode is None else encode_each(self._encode, views))
        looked = [(item, made if isinstance(made, TrimtabError) else next(rows)) for item, made in taken]
        if self._closer is not None:
            looked = [(item, _closer_look(self._closer, item, found)) for item, found in looked]
        if views and self._encode is not None:
            seconds = (time.perf_counter() - start) / len(views)
            self._at_once = max(1, min(self._full, int(LONGEST_BATCH / max(seconds, 1e-9))))
        return looked


def encode_each(encode: Encode, views: list[Pixels]) -> list[Rows | TrimtabError]:
    """The features of each image, encoded together; if they cannot be, the images that cannot are found singly."""
    if not views:
        return []
    try:
        rows = image_rows(encode, np.concatenate(views))
    except TrimtabError as error:
        return [error] if len(views) == 1 else [found for one in views for found in encode_each(encode, [one])]
    return list(np.split(rows, np.cumsum([len(one) for one in views])[:-1]))


def _closer_look(closer: Closer, item: Any, found: Rows | TrimtabError) -> Rows | TrimtabError:
    """What is known after a closer look; an image that can no longer be read is one that cannot be read."""
    try:
        return found if isinstance(found, TrimtabError) else closer(item, found)
    except TrimtabError as error:
        return error


def _made(work: Future[Pixels]) -> Pixels | TrimtabError:
    """What reading an image gave; errors that are not the image's come through."""
    try:
        return work.result()
    except TrimtabError as error:
        return error
