"""Server-sent events: what happens in a stream, told to whoever listens, as long as they keep up.

An event is told in the thread that caused it, so it is only handed over there. Each listener has a short queue; one
that does not keep up loses the oldest events and is told how many.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from trimtab.serve.problems import Busy
from trimtab.serve.service import Service
from trimtab.serve.tenant import Tenant

MOST_WAITING = 256  # events per listener
SECONDS_OF_SILENCE = 15.0  # then a comment is sent, so that a connection that is gone is noticed
AT_ONCE = 0.05  # seconds in which events are gathered: a fast stream would wake every listener for each image


class Listener:
    """One client that listens to a stream."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._lost = 0
        self._something = asyncio.Event()

    def tell(self, event: dict[str, Any]) -> None:
        """Hand an event over; called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._hear, event)
        except RuntimeError:  # the server has stopped
            return

    def _hear(self, event: dict[str, Any]) -> None:
        self._lost += len(self._waiting) == MOST_WAITING
        self._waiting.append(event)
        self._something.set()

    def stop(self) -> None:
        """Wake it up, for the server is stopping."""
        self._something.set()

    async def next(self) -> str:
        """What to send next: the events that wait, or a comment after a long silence."""
        try:
            async with asyncio.timeout(SECONDS_OF_SILENCE):
                await self._something.wait()
        except TimeoutError:
            return ": still here\n\n"
        await asyncio.sleep(AT_ONCE)
        self._something.clear()
        events, lost = list(self._waiting), self._lost
        self._waiting.clear()
        self._lost = 0
        if lost:
            events.insert(0, {"kind": "lost", "events": lost})
        return "".join(as_text(event) for event in events)


def as_text(event: dict[str, Any]) -> str:
    """One event as the protocol writes it; JSON holds no line breaks."""
    return f"event: {event['kind']}\ndata: {json.dumps(event, default=str)}\n\n"


def events_of(service: Service, stream: str, allowed: Callable[[], bool]) -> AsyncIterator[str]:
    """Everything that happens in a stream from now on, until the client or the server ends it, or it is not allowed."""
    tenant = service.hub.get(stream)
    if service.listeners >= service.limits.listeners:
        raise Busy(f"{service.listeners} clients listen already; try again later.", retry_after=30)
    return _told(service, tenant, allowed)


async def _told(service: Service, tenant: Tenant, allowed: Callable[[], bool]) -> AsyncIterator[str]:
    # Only from here on is there an end to it: a client may leave before the first word.
    listener = Listener(asyncio.get_running_loop())
    stopping = asyncio.create_task(service.stopping.wait())
    stopping.add_done_callback(lambda _: listener.stop())
    service.listeners += 1
    end = tenant.listen(listener.tell)
    try:
        yield as_text({"kind": "hello", "stream": tenant.name})
        while not service.stopping.is_set():
            events = await listener.next()
            if not allowed():  # the token was withdrawn
                return
            yield events
    finally:
        stopping.cancel()
        service.listeners -= 1
        end()
