"""A real server for the page's tests: real streams, real HTTP, and an encoder that knows colors."""

import io
from contextlib import contextmanager

import httpx
import numpy as np
from PIL import Image

from tiny_encoder import COLORS, ColorEncoder
from trimtab.serve import Hub, Request, StreamSettings
from trimtab.serve.access import Access
from trimtab.serve.app import make_app
from trimtab.serve.limits import Limits
from trimtab.serve.pool import EncoderPool
from trimtab.serve.running import run_in_thread

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
        self.folder, self.access, self.port = folder, access or Access(), 0
        self.start()

    def start(self):
        self.hub = Hub.open(self.folder)
        encoders = EncoderPool(lambda _: ColorEncoder(), allowed=("colors",))
        self.app = make_app(self.hub, encoders, access=self.access)
        self.port, self.stop = run_in_thread(self.app, Limits(), port=self.port)
        self.url = f"http://127.0.0.1:{self.port}"

    def stream(self, name="colors", images=0, **settings):
        """A stream that has seen some images."""
        given = {"encoder": "colors", "method": "mcp", "thumbnails": True, "fsync": "never", "guard_parameters": NO_GAP}
        tenant = self.app.state.service.add(StreamSettings(name=name, labels=LABELS, **(given | settings)))
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
