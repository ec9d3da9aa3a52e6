"""Limits: how much a client may send, how fast, and how long it may take over it."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any

from starlette.types import Message, Receive

from trimtab import arguments
from trimtab.serve.problems import Busy, Problem

MEGABYTE = 1 << 20
MOST_CLIENTS = 10_000  # whose rates are remembered


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server takes. Every figure can be set in the configuration file, under [limits]."""

    body_megabytes: int = 32  # of one request
    state_megabytes: int = 512  # of an uploaded state
    held_megabytes: int = 1024  # of all bodies that are being read or worked on
    body_seconds: int = 30  # to send a body
    head_seconds: int = 10  # to send a request's head
    send_seconds: int = 60  # to take each piece of an answer
    pictures_per_request: int = 256
    pictures_waiting: int = 512  # for the encoder, of all clients
    pixels: int = 50_000_000  # of one picture
    requests_per_minute: int = 0  # of one client, by token or address; 0: any number
    wrong_tokens_per_minute: int = 20  # of one address
    listeners: int = 64  # to events
    connections: int = 1000

    def __post_init__(self) -> None:
        for declared in fields(self):
            least = 0 if declared.name == "requests_per_minute" else 1
            arguments.whole(declared.name, getattr(self, declared.name), least=least)


class Rate:
    """So many per minute for each client, saved up for at most a minute."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> (what is left, when)

    def take(self, client: str, count: int = 1) -> float:
        """0 if the client may; else in how many seconds it may, and nothing is taken."""
        if not self.per_minute:
            return 0.0
        now, most = time.monotonic(), float(self.per_minute)
        left, then = self._left.pop(client, (most, now))
        left = min(most, left + (now - then) * most / 60)
        # More at once than fits a minute is let through when the minute is whole, and paid for afterwards.
        lacking = min(count, most) - left
        self._left[client] = (left if lacking > 0 else left - count, now)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return max(0.0, lacking * 60 / most)


class HeldBytes:
    """The memory that all bodies take together."""

    def __init__(self, most: int) -> None:
        self._most, self.held = most, 0

    def hold(self, count: int) -> None:
        """Take so much, or refuse."""
        if self.held + count > self._most:
            raise Busy("Too much is being sent to this server at once; try again in a moment.", retry_after=2)
        self.held += count

    def let_go(self, count: int) -> None:
        """Give it back."""
        self.held -= count


async def read_body(receive: Receive, announced: str | None, most: int, seconds: float, held: HeldBytes) -> bytearray:
    """A request's whole body, if it is small enough and comes in time; whoever gets it lets go of it."""
    size = int(announced) if announced is not None and announced.isdecimal() else 0
    if size > most:
        raise too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message: Message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                piece: bytes = message.get("body", b"")
                if len(body) + len(piece) > most:
                    raise too_large(most)
                held.hold(len(piece))
                body += piece
                if not message.get("more_body", False):
                    return body
    except TimeoutError:
        held.let_go(len(body))
        raise Problem(
            HTTPStatus.REQUEST_TIMEOUT, f"The request's body did not arrive within {seconds:g} seconds; send it faster."
        ) from None
    except BaseException:
        held.let_go(len(body))
        raise


class ClientGoneError(Exception):
    """The client has left, or its connection cannot be used any more."""


def too_large(most: int) -> Problem:
    """The refusal of a body that is too large."""
    size = f"{most // MEGABYTE} MB" if most >= MEGABYTE else f"{most:,} bytes"
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The request is larger than {size}, the most that this server takes at once.",
    )


def too_fast(seconds: float, what: str) -> Problem:
    """The refusal of a client that asks too often."""
    wait = max(1, round(seconds + 0.5))
    return Problem(
        HTTPStatus.TOO_MANY_REQUESTS, f"{what}; try again in {wait} second{'s' * (wait > 1)}.", retry_after=wait
    )


def replayed(body: bytearray, receive: Receive) -> Receive:
    """A `receive` that gives a body that was read already, and then what really comes."""
    whole: list[Any] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again
