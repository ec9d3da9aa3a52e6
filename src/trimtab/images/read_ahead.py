"""ReadAhead: work on the items of any iterable by threads, ahead of whoever takes the results, always in order.

The iterable is walked by a thread of its own, so one that waits (a camera, a pipe) keeps nobody from what is done
already. That thread cannot be stopped while it waits; it never keeps a program from ending.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from trimtab.images.loader import usable_cores

Item = TypeVar("Item")
Made = TypeVar("Made")


class ReadAhead(Generic[Item, Made]):
    """`make(item)` for each item, at most `ahead` of them begun and not yet taken, however long the iterable is."""

    def __init__(
        self, items: Iterable[Item], make: Callable[[Item], Made], *, ahead: int, workers: int | None = None
    ) -> None:
        self._changed = threading.Condition()
        self._under_way: deque[tuple[Item, Future[Made]]] = deque()
        self._ahead = ahead
        self._ended = self._closed = False
        self._failure: BaseException | None = None  # of the iterable itself
        self._pool = ThreadPoolExecutor(workers or usable_cores(), thread_name_prefix="read-ahead")
        threading.Thread(target=self._walk, args=(items, make), name="read-ahead-walk", daemon=True).start()

    def take(self, most: int) -> list[tuple[Item, Future[Made]]]:
        """The next items whose work is done, at least one and at most `most`, with no wait for more; none at the end.

        An error of `make` is in its future. An error of the iterable is raised when everything before it was taken.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._next_is_done() or self._nothing_will_come())
            taken: list[tuple[Item, Future[Made]]] = []
            while len(taken) < most and self._next_is_done():
                taken.append(self._under_way.popleft())
            self._changed.notify_all()
            if not taken and self._failure is not None:
                raise self._failure
        return taken

    def close(self) -> None:
        """End: what was read ahead is dropped, and whoever waits in `take` gets nothing."""
        with self._changed:
            self._closed = True
            self._under_way.clear()
            self._changed.notify_all()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _next_is_done(self) -> bool:
        return bool(self._under_way) and self._under_way[0][1].done()

    def _nothing_will_come(self) -> bool:
        return self._closed or (self._ended and not self._under_way)

    def _walk(self, items: Iterable[Item], make: Callable[[Item], Made]) -> None:
        try:
            for item in items:
                if not self._begin(item, make):
                    return
        except BaseException as error:  # handed to whoever takes the results
            self._failure = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _begin(self, item: Item, make: Callable[[Item], Made]) -> bool:
        """Hand one item to the workers when there is room; False if nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._under_way) < self._ahead)
            if self._closed:
                return False
            work = self._pool.submit(make, item)
            self._under_way.append((item, work))
        work.add_done_callback(self._tell)
        return True

    def _tell(self, _: Future[Made]) -> None:
        with self._changed:
            self._changed.notify_all()
