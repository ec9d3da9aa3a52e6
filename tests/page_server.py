"""A real server for the page's tests: real streams, real HTTP, and an encoder that knows colors."""

import io
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import uvicorn
from PIL import Image
from tiny_encoder import COLORS, ColorEncoder

from trimtab.serve import Hub, Request, StreamSettings
from trimtab.serve.access import Access
from trimtab.serve.app import make_app
from trimtab.serve.pool import EncoderPool

LABELS = tuple(COLORS)
NO_GAP = {"gap": 0, "strange": 0}  # colors in pictures and in words are in one cone


def picture_of(color, seed=0, noise=60):
    """A JPEG of one color, with grain."""
    grain = np.random.default_rng(seed).integers(-noise, noise + 1, (32, 32, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(np.array(COLORS[color]) + grain, 0, 255).astype(np.uint8)).save(file, "JPEG")
    return file.getvalue()


def features(count, seed=0):
    """(count, 28) features of images between two colors: zero-shot is often wrong about them, so there are flips."""
    random = np.random.default_rng(seed)
    text = ColorEncoder().encode_texts(LABELS)
    strayed = text + 0.8 * text[[1, 2, 3, 0]]
    rows = strayed[random.integers(len(LABELS), size=count)] + 0.1 * random.normal(size=(count, text.shape[1]))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Served:
    """A server on a free port of this machine, in a thread."""

    def __init__(self, folder, access=None):
        self.folder, self.access = folder, access or Access()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.hub = Hub.open(self.folder)
        encoders = EncoderPool(lambda _: ColorEncoder(), allowed=("colors",), lanes=1)
        config = uvicorn.Config(
            make_app(self.hub, encoders, access=self.access),
            port=self.port,
            log_level="error",
            log_config=None,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self.hub.close()

    def stream(self, name="colors", images=0, **settings):
        """A stream that has seen some images."""
        encoder = ColorEncoder()
        given = {"encoder": "colors", "method": "mcp", "thumbnails": True, "fsync": "never", "guard_parameters": NO_GAP}
        given |= settings
        tenant = self.hub.create(
            StreamSettings(name=name, labels=LABELS, **given), encoder.encode_texts(LABELS), encoder.logit_scale
        )
        self.show(tenant, images)
        return tenant

    def show(self, tenant, images, seed=0):
        """Let a stream see images, each with a picture."""
        rows, small = features(images, seed), [picture_of(color) for color in COLORS]
        text = ColorEncoder().encode_texts(LABELS)
        for start in range(0, images, 256):
            part = rows[start : start + 256]
            near = (part @ text.T).argmax(axis=1)
            tenant.classify([Request(row, picture=small[c]) for row, c in zip(part, near, strict=True)])


@contextmanager
def served(folder, access=None):
    """A server, until the block ends."""
    server = Served(folder, access)
    try:
        yield server
    finally:
        server.stop()


def client(server, **more):
    """A browser without scripts."""
    return httpx.Client(base_url=server.url, follow_redirects=True, **more)
