"""Turns: images of one stream are taken in together, in one commit; while one group is written, the next gathers."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from trimtab.errors import TrimtabError
from trimtab.serve.records import Answer, Request

MOST_AT_ONCE = 256  # images in a group

Classify = Callable[[str, Sequence[Request]], list[Answer]]


class Turns:
    """Requests in, answers out, one group per stream at a time. `classify` is called in a thread of `pool`.

    For the event loop's thread alone, so it needs no lock.
    """

    def __init__(self, classify: Classify, pool: Executor) -> None:
        self._classify, self._pool = classify, pool
        self._waiting: dict[str, list[_Waiting]] = {}  # a stream is here while a task works for it
        self._tasks: set[asyncio.Task[None]] = set()

    async def classify(self, stream: str, requests: Sequence[Request]) -> list[Answer]:
        """The answers to the images of one client's request, all of them or an error."""
        waiting = _Waiting(requests, asyncio.get_running_loop().create_future())
        if stream in self._waiting:
            self._waiting[stream].append(waiting)
        else:
            self._waiting[stream] = [waiting]
            task = asyncio.create_task(self._work(stream))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # A client that leaves does not stop what others wait for, nor its own image from being learned.
        return await asyncio.shield(waiting.answers)

    async def _work(self, stream: str) -> None:
        try:
            await asyncio.sleep(0)  # the others of an encoder's batch come in the same moment
            while self._waiting[stream]:
                group = self._next(self._waiting[stream])
                if not await self._together(stream, group):
                    for waiting in group:  # one of them is refused: each for itself, in their order
                        await self._alone(stream, waiting)
        finally:
            for waiting in self._waiting.pop(stream):  # only if the server is being stopped by force
                waiting.answers.cancel()

    @staticmethod
    def _next(queue: list["_Waiting"]) -> list["_Waiting"]:
        group = [queue.pop(0)]
        count = len(group[0].requests)
        while queue and count + len(queue[0].requests) <= MOST_AT_ONCE:
            group.append(queue.pop(0))
            count += len(group[-1].requests)
        return group

    async def _together(self, stream: str, group: list["_Waiting"]) -> bool:
        if len(group) == 1:
            await self._alone(stream, group[0])
            return True
        requests = [request for waiting in group for request in waiting.requests]
        try:
            answers = iter(await self._in_thread(stream, requests))
        except TrimtabError:
            return False
        except Exception as error:
            for waiting in group:
                waiting.fail(error)
            return True
        for waiting in group:
            waiting.give([next(answers) for _ in waiting.requests])
        return True

    async def _alone(self, stream: str, waiting: "_Waiting") -> None:
        try:
            waiting.give(await self._in_thread(stream, waiting.requests))
        except Exception as error:
            waiting.fail(error)

    async def _in_thread(self, stream: str, requests: Sequence[Request]) -> list[Answer]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._classify, stream, requests)


class _Waiting:
    """The images of one client's request."""

    def __init__(self, requests: Sequence[Request], answers: "asyncio.Future[list[Answer]]") -> None:
        self.requests, self.answers = requests, answers

    def give(self, answers: list[Answer]) -> None:
        if not self.answers.done():
            self.answers.set_result(answers)

    def fail(self, error: Exception) -> None:
        if not self.answers.done():
            self.answers.set_exception(error)
            self.answers.exception()  # heard, even if the client has left
