"""Running: a server in this process, from its first line to its last."""

import errno
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from trimtab.errors import TrimtabError
from trimtab.serve.limits import Limits
from trimtab.serve.logs import log
from trimtab.serve.patience import impatient

# Seconds that a thread that answers waits for one that computes; with Python's 5 ms a tenth of the throughput is lost.
SWITCH = 0.0005
KEEP_ALIVE = 30  # seconds that a connection may wait for its next request
LONGEST_GOODBYE = 30  # seconds for requests under way when the server is told to stop


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens, or one sentence why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio switches off Nagle's delay (40 ms here) only where it is.
    server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except (OSError, OverflowError) as error:
        server.close()
        reason = getattr(error, "strerror", None) or error
        foreign = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        option = "--host" if foreign else "--port"
        raise TrimtabError(
            f"Nothing can listen on {host}, port {port}: {reason}; choose another with {option}."
        ) from None
    return server


def run(app: FastAPI, server: socket.socket, limits: Limits, *, started: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; then finish what is under way, write everything down, and return."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # encoders and packages stay; looking for garbage, which streams that fall asleep leave, passes them by
    _Server(app, limits, started).run(sockets=[server])


def run_in_thread(
    app: FastAPI, limits: Limits, host: str = "127.0.0.1", port: int = 0
) -> tuple[int, Callable[[], None]]:
    """A server in a thread of this process: its port (0: any that is free), and the function that stops it."""
    server, ready = bind(host, port), threading.Event()
    running = _Server(app, limits, ready.set)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [server]}, name="server", daemon=True)
    thread.start()
    if not ready.wait(LONGEST_GOODBYE):
        raise TrimtabError("The server did not start.")

    def stop() -> None:
        running.should_exit = True
        thread.join(LONGEST_GOODBYE)

    return int(server.getsockname()[1]), stop


class _Server(uvicorn.Server):
    """Uvicorn's, which ends here when it is told to, instead of dying of the signal once more."""

    def __init__(self, app: FastAPI, limits: Limits, started: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=LONGEST_GOODBYE,
            limit_concurrency=limits.connections,
            ws="none",
        )
        config.load()
        config.http_protocol_class = impatient(config.http_protocol_class, limits)
        super().__init__(config)
        self._app, self._say = app, started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._say()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping")
        self._app.state.service.stopping.set()  # ends what would not end by itself: clients that listen
        await super().shutdown(sockets)
