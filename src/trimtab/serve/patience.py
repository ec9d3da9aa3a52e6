"""Patience: how long a client may take to send a request's head.

Uvicorn waits for as long as it takes, so a few slow clients could hold all connections. (Bodies have a limit of their
own, in `limits`.)
"""

import asyncio
from typing import Any


def impatient(protocol: Any, seconds: float) -> Any:
    """The same protocol of uvicorn's, with connections closed on which a head does not come in time."""

    class Impatient(protocol):  # type: ignore[misc]
        """Closes a connection on which no request has begun, or one has begun and its head is not whole, for long."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            idle = self.cycle is None or self.cycle.response_complete
            before = self.cycle
            if idle and self._deadline is None:
                self._wait()
            super().data_received(data)
            if self.cycle is not before:  # a whole head has come
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._deadline = self.loop.call_later(seconds, self._give_up)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            if not self.transport.is_closing():
                self.transport.close()

    return Impatient
