"""Patience: how long a client may take to send a request's head, how large that may be, and how long an answer waits.

Uvicorn waits for as long as it takes, so a few slow clients could hold all connections, or the memory of large answers;
and with httptools it takes heads of any size.
(Bodies have a limit of their own, in `limits`.)
"""

import asyncio
from typing import Any

from trimtab.serve.limits import Limits
from trimtab.serve.outgoing import Outgoing

LARGEST_HEAD = 1 << 16  # bytes; what other servers take, or more


def impatient(protocol: Any, limits: Limits) -> Any:
    """The same protocol of uvicorn's, with connections closed on which a head does not come, or an answer not go."""

    class Impatient(protocol):  # type: ignore[misc]
        """One connection."""

        _head: asyncio.TimerHandle | None = None  # while no request has begun, or the head of one is not whole
        _head_bytes: int | None = None  # so many of a head have come, while it is not whole
        _stuck: asyncio.TimerHandle | None = None  # while the client takes nothing of what waits for it

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Outgoing(transport))
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self._head is None and (before is None or before.response_complete):
                self._wait_for_head()
            super().data_received(data)
            if self.cycle is not before:  # a whole head has come
                self._cancel("_head")
            if self._head_bytes is not None:
                self._head_bytes += len(data)
                if self._head_bytes > LARGEST_HEAD:
                    self.transport.abort()

        def on_message_begin(self) -> None:
            self._head_bytes = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._head_bytes = None
            super().on_headers_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stuck is None:
                self._stuck = self.loop.call_later(limits.send_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._cancel("_stuck")
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel("_head")
            self._cancel("_stuck")
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            self._head = self.loop.call_later(limits.head_seconds, self.transport.close)

        def _cancel(self, name: str) -> None:
            timer = getattr(self, name)
            if timer is not None:
                timer.cancel()
                setattr(self, name, None)

    return Impatient
