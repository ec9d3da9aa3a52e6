"""Encoding: one encoder for all streams that name it, kept busy with whatever pictures have come.

Threads decode pictures and cut their views; lanes, one thread each, take what is ready and encode it. On a processor
there is a lane per core, each with one thread of its own: lanes that never wait for each other encode more than one
call spread over all cores. What is under way is shared out to the lanes and one share more, so that one is ready when
a lane is done. A lane waits a few milliseconds for pictures that are being decoded, never for pictures that may come.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import Encoder, images_per_call
from trimtab.errors import TrimtabError
from trimtab.images.decode import MAX_PIXELS, decode
from trimtab.images.loader import usable_cores
from trimtab.images.views import enough_side, make_views
from trimtab.look_ahead import encode_each
from trimtab.serve.problems import Busy, Problem

VIEWS_AT_ONCE = 16  # larger batches were slower on a processor; on a GPU more would be faster
LONGEST_WAIT = 0.003  # seconds that a batch waits for pictures being decoded

Features = NDArray[np.float32]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Batch:
    """What a lane has done: for metrics, and for how long a client is asked to wait."""

    pictures: int
    seconds: float


@dataclass(frozen=True, eq=False)
class _Ready:
    views: Pixels
    answer: "Future[Features]"


class SharedEncoder:
    """Pictures in, features out, for all streams of one encoder. Thread-safe.

    `most_waiting` bounds the pictures under way; one more is refused (`Busy`). `most_pixels` is the largest picture
    that is decoded. `told` hears of each batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        lanes: int = 1,
        most_waiting: int = 512,
        most_pixels: int = MAX_PIXELS,
        told: Callable[[Batch], None] | None = None,
    ) -> None:
        self.encoder, self._lanes, self._most_waiting, self._most_pixels = encoder, lanes, most_waiting, most_pixels
        self._told = told
        self._changed = threading.Condition()
        self._ready: deque[_Ready] = deque()
        self._left: list[tuple[_Ready, Features | TrimtabError]] = []  # encoded, to be answered with the next batch
        self._decoding = self._under_way = self._busy = 0
        self._closed = False
        self._per_second = 0.0
        self._decoders = ThreadPoolExecutor(usable_cores(), thread_name_prefix="decode")
        self._threads = [threading.Thread(target=self._lane, name=f"encode-{n}", daemon=True) for n in range(lanes)]
        for thread in self._threads:
            thread.start()

    @property
    def under_way(self) -> int:
        """How many pictures were given and not answered yet."""
        return self._under_way

    def features(
        self, pictures: list[bytes], views: int = 1, seed: int = 0, first: int = 0
    ) -> list["Future[Features]"]:
        """The (V - first, d) features of each picture's views, as `Classifier` would see them; all or `Busy`."""
        with self._changed:
            if self._closed:
                raise Busy("The server is stopping; try again in a moment.", retry_after=5)
            if self._under_way + len(pictures) > self._most_waiting:
                raise Busy(
                    f"{self._under_way} pictures are waiting for the encoder already; try again in a moment.",
                    retry_after=self._wait_for(self._under_way),
                )
            self._decoding += len(pictures)
            self._under_way += len(pictures)
        answers: list[Future[Features]] = [Future() for _ in pictures]
        for picture, answer in zip(pictures, answers, strict=True):
            self._decoders.submit(self._decode, picture, views, seed, first, answer)
        return answers

    def close(self) -> None:
        """Finish what is under way, then end."""
        with self._changed:
            self._closed = True
        self._decoders.shutdown(wait=True)
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _decode(self, picture: bytes, views: int, seed: int, first: int, answer: "Future[Features]") -> None:
        pixels, failure = None, None
        try:
            if answer.set_running_or_notify_cancel():  # else whoever asked has left
                size = self.encoder.input_size
                image = decode(picture, enough=enough_side(size), most_pixels=self._most_pixels)
                pixels = make_views(image, size, views, seed, first=first)
        except Exception as error:
            failure = error
        with self._changed:
            self._decoding -= 1
            if pixels is not None:
                self._ready.append(_Ready(pixels, answer))
            else:
                self._under_way -= 1
            self._changed.notify()
        if failure is not None:
            answer.set_exception(failure)

    def _lane(self) -> None:
        while batch := self._next_batch():
            start = time.perf_counter()
            try:
                found: list[Features | TrimtabError] = encode_each(
                    self.encoder.encode_images, [one.views for one in batch]
                )
            except Exception as error:  # an encoder's own fault: whoever asked hears of it, and the lane continues
                found = [_as_ours(error)] * len(batch)
            seconds = time.perf_counter() - start
            self._tell(Batch(len(batch), seconds))
            for one, rows in self._to_answer(batch, found):
                if isinstance(rows, TrimtabError):
                    one.answer.set_exception(rows)
                else:
                    one.answer.set_result(rows)

    def _to_answer(
        self, batch: list[_Ready], found: list[Features | TrimtabError]
    ) -> list[tuple[_Ready, Features | TrimtabError]]:
        """What a lane answers that is done with a batch: that, and what another lane has left for it.

        A lane whose next batch is ready while another lane is at work leaves its answers for whichever lane is done
        next: two batches in one commit and one wake-up cost less than one each. No more than one batch is left so.
        """
        with self._changed:
            self._under_way -= len(batch)
            self._busy -= 1
            first = not self._left
            self._left += zip(batch, found, strict=True)
            if first and self._busy and len(self._ready) >= len(batch):
                return []
            answered, self._left = self._left, []
            return answered

    def _next_batch(self) -> list[_Ready]:
        """What to encode next; nothing at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._ready or (self._closed and not self._decoding))
                if not self._ready:
                    return []
                most = images_per_call(self.encoder) or max(1, VIEWS_AT_ONCE // len(self._ready[0].views))
                wanted = min(most, math.ceil(self._under_way / (self._lanes + 1)))
                self._changed.wait_for(partial(self._enough, wanted), timeout=LONGEST_WAIT)
                if self._ready:  # else another lane was faster
                    self._busy += 1
                    return [self._ready.popleft() for _ in range(min(wanted, len(self._ready)))]

    def _enough(self, wanted: int) -> bool:
        return len(self._ready) >= wanted or not self._decoding

    def _tell(self, batch: Batch) -> None:
        speed = self._lanes * batch.pictures / max(batch.seconds, 1e-6)
        self._per_second = speed if not self._per_second else 0.9 * self._per_second + 0.1 * speed
        if self._told is not None:
            self._told(batch)

    def _wait_for(self, pictures: int) -> int:
        return max(1, math.ceil(pictures / self._per_second)) if self._per_second else 1


def _as_ours(error: Exception) -> TrimtabError:
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE, f"The encoder failed ({type(error).__name__}: {error}).", retry_after=5
    )
