"""A server for tests: two streams of colors, in a folder of its own, in this process."""

import io
import socket
from contextlib import contextmanager

import numpy as np
from PIL import Image

from tests.tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.serve.access import Access, Token, hash_of
from trimtab.serve.app import make_app
from trimtab.serve.hub import Hub
from trimtab.serve.limits import Limits
from trimtab.serve.metrics import Metrics
from trimtab.serve.pool import EncoderPool
from trimtab.serve.running import run_in_thread
from trimtab.serve.settings import StreamSettings

LABELS = tuple(COLORS)
# The texts and pictures of the tiny encoder lie in one cone, so the guard would take every picture for a crafted one.
SETTINGS = {"labels": LABELS, "encoder": "colors", "method": "mcp", "guard": False}


def picture(color="red", seed=0, kind="PNG"):
    """A grainy picture of one color, as a file's bytes."""
    file = io.BytesIO()
    Image.fromarray(colored(color, seed)).save(file, kind)
    return file.getvalue()


def pictures(count, first=0):
    """Pictures of all colors in turn."""
    return [picture(LABELS[number % len(LABELS)], first + number) for number in range(count)]


def rows(count, seed=0):
    """(N, 28) features, as the tiny encoder gives them."""
    pixels = np.stack([colored(LABELS[number % 4], seed + number, 24, 24) for number in range(count)])
    return ColorEncoder().encode_images(pixels)


def token(name, role, *streams):
    """A token that is called as it reads."""
    return Token(name, role, streams or ("*",), hash_of(name))


def made(folder, *, access=None, limits=None, streams=("one", "two"), encoder=None, **settings):
    """An app around a folder."""
    hub, metrics, limits = Hub.open(folder), Metrics(), limits or Limits()
    pool = EncoderPool(lambda _: encoder or ColorEncoder(), allowed=("colors",), limits=limits, told=metrics.batch)
    app = make_app(hub, pool, access=access or Access(), limits=limits, metrics=metrics)
    for name in streams:
        if name not in hub.names():
            app.state.service.add(StreamSettings(name=name, **{**SETTINGS, **settings}))
    return app


@contextmanager
def served(folder, **options):
    """A server that listens: its address. It is stopped at the end."""
    limits = options.setdefault("limits", Limits())
    port, stop = run_in_thread(made(folder, **options), limits)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop()


def send(address, content, seconds=10.0):
    """Send bytes as they are; all that comes back until the server closes or says no more."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(content)
        return read_answer(connection)


def read_answer(connection, *, body_follows=True):
    """One answer: its status, headers and body; status 0 if the connection was closed without one."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return 0, {}, received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    while body_follows and len(body) < int(headers.get("content-length", 0)):
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return int(lines[0].split()[1]), headers, body
