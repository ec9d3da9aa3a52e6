"""Arrivals: results of threads, awaited in the event loop, which is woken once for all that have come by then.

`asyncio.wrap_future` wakes the loop for each result, although a batch of pictures is ready at once.
"""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

Given = TypeVar("Given")


class Arrivals:
    """For one event loop; results may come from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._come: deque[asyncio.Future[None]] = deque()
        self._told = False  # whether the loop will look after what has come by now

    async def of(self, future: "Future[Given]") -> Given:
        """A thread's result, or its error; whoever stops waiting for it cancels it."""
        waiting: asyncio.Future[None] = self.loop.create_future()
        future.add_done_callback(partial(self._has_come, waiting))
        try:
            await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def _has_come(self, waiting: "asyncio.Future[None]", _: "Future[Given]") -> None:
        """In the thread. Added before it is asked whether the loop was told, so that none is left behind."""
        self._come.append(waiting)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        """In the loop. Said before it is looked, for the same reason."""
        self._told = False
        while self._come:
            waiting = self._come.popleft()
            if not waiting.done():
                waiting.set_result(None)
