"""Outgoing: an answer's head and body leave in one packet.

Uvicorn writes them one after the other, and asyncio sends each at once: two calls of the system, and two wake-ups of
the client.
"""

import asyncio
from typing import Any

MOST_HELD = 1 << 16  # bytes; more is sent at once, so that a slow client is noticed


class Outgoing:
    """A transport that sends what was written in one turn of the event loop together."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._held: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it when the loop has nothing else to do in this turn."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)
        self._bytes += len(data)
        if self._bytes > MOST_HELD:
            self._send()

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._held:
            held, self._held, self._bytes = self._held, [], 0
            self._transport.write(b"".join(held))
