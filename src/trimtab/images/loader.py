"""ViewLoader: images decoded and cut into views by threads, some batches ahead of the encoder, always in order."""

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.images.views import check_view_options, make_views, resize_shorter_and_crop


@dataclass(frozen=True, eq=False)
class ViewBatch:
    """Consecutive images of a set: those that could be read, and why the others could not."""

    indices: NDArray[np.int64]  # (n,) of the readable ones
    pixels: NDArray[np.uint8]  # (n, V, size, size, 3)
    unreadable: tuple[tuple[int, str], ...]  # (index, reason)


class ViewLoader:
    """Iterate over `ViewBatch`es of about `batch` views.

    `load(i)` gives image i as RGB bytes and is called from several threads at once; a `TrimtabError` from it marks the
    image as unreadable. `generated(i, image)` gives `generated_views` further images, which become its last views (see
    `trimtab.images.generated`). Decoding and resizing release the GIL, so threads are enough, and nothing is pickled.
    At most a few batches are held at any time, however slow the encoder is.
    """

    def __init__(
        self,
        load: Callable[[int], NDArray[np.uint8]],
        indices: Sequence[int],
        *,
        size: int,
        views: int = 1,
        seed: int = 0,
        augmix: bool = False,
        generated: Callable[[int, NDArray[np.uint8]], Sequence[NDArray[np.uint8]]] | None = None,
        generated_views: int = 0,
        batch: int = 64,
        workers: int | None = None,
    ) -> None:
        check_view_options(views, seed)
        arguments.whole("size", size, least=1)
        arguments.whole("batch", batch, least=1)
        if workers is not None:
            arguments.whole("workers", workers, least=1)
        arguments.switch("augmix", augmix)
        self._load, self._indices = load, indices
        self._size, self._views, self._seed, self._augmix = size, views, seed, augmix
        self._generated, self._all_views = generated, views + (generated_views if generated else 0)
        self._workers = workers or usable_cores()
        self.images_per_batch = max(1, batch // self._all_views)
        # Enough batches under way to occupy every worker while the encoder is busy with another one.
        self._ahead = max(2, -(-2 * self._workers // self.images_per_batch))

    def __len__(self) -> int:
        """The number of batches."""
        return -(-len(self._indices) // self.images_per_batch)

    def __iter__(self) -> Generator[ViewBatch, None, None]:
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="views")
        under_way: deque[_PendingBatch] = deque()
        try:
            for start in range(0, len(self._indices), self.images_per_batch):
                under_way.append(self._submit(pool, self._indices[start : start + self.images_per_batch]))
                if len(under_way) > self._ahead:
                    yield under_way.popleft().wait()
            while under_way:
                yield under_way.popleft().wait()
        finally:  # also when the caller stops early
            pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, pool: ThreadPoolExecutor, indices: Sequence[int]) -> "_PendingBatch":
        pixels = np.empty((len(indices), self._all_views, self._size, self._size, 3), dtype=np.uint8)
        jobs = [pool.submit(self._fill, slot, int(index)) for slot, index in zip(pixels, indices, strict=True)]
        return _PendingBatch(indices, pixels, jobs)

    def _fill(self, slot: NDArray[np.uint8], index: int) -> str | None:
        try:
            image = self._load(index)
            own = slot[: self._views]
            make_views(image, self._size, self._views, self._seed, augmix=self._augmix, out=own)
            if self._generated:
                for place, further in enumerate(self._generated(index, image), start=self._views):
                    slot[place] = resize_shorter_and_crop(further, self._size)
        except TrimtabError as error:
            return str(error)
        return None


@dataclass(frozen=True, eq=False)
class _PendingBatch:
    indices: Sequence[int]
    pixels: NDArray[np.uint8]
    jobs: list[Future[str | None]]

    def wait(self) -> ViewBatch:
        reasons = [job.result() for job in self.jobs]
        unreadable = tuple((int(i), reason) for i, reason in zip(self.indices, reasons, strict=True) if reason)
        indices = np.asarray(self.indices, dtype=np.int64)
        if not unreadable:
            return ViewBatch(indices, self.pixels, ())
        readable = np.array([reason is None for reason in reasons])
        return ViewBatch(indices[readable], self.pixels[readable], unreadable)


def usable_cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
