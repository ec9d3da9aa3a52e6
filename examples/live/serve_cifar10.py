"""A server that lives: `trimtab serve` with CIFAR-10's labels, and real images sent to it, a few per second.

    make serve                                   # or: python examples/live/serve_cifar10.py --per-second 20

Open the address that it prints. Nobody tells the stream what the images show: labels stay here. Ctrl-C ends both; what
was learned is kept, and the next start continues with the next image.
"""

import argparse
import io
import itertools
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from PIL import Image

from trimtab.data.base import ImageSet
from trimtab.data.fetched.cifar import cifar10
from trimtab.errors import TrimtabError
from trimtab.files import cache_folder
from trimtab.serve import Client

STREAM = "cifar10"
LONGEST_START = 180  # seconds; the first start exports the encoder


def main() -> None:
    """Start the server, send images until Ctrl-C, and let it write everything down."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a service manager's stop ends both, as Ctrl-C does
        signal.signal(number, signal.default_int_handler)
    given = _options()
    images = cifar10()
    server = subprocess.Popen(_command(given, images))
    try:
        client = Client(f"http://127.0.0.1:{given.port}")
        first = _seen(client, server)
        print(f"Watch it at http://127.0.0.1:{given.port}/streams/{STREAM}. Ctrl-C ends it.", flush=True)
        _send(client, images, first, given)
    except KeyboardInterrupt:
        pass
    finally:
        with suppress(KeyboardInterrupt):
            server.terminate()
            server.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve CIFAR-10's labels with `lite`, and send it CIFAR-10's images.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--per-second", type=float, default=8.0, help="images")
    parser.add_argument("--images", type=int, default=0, help="how many to send; 0: until Ctrl-C")
    parser.add_argument(
        "--folder", type=Path, default=cache_folder("demo") / "streams", help="where the stream is kept"
    )
    return parser.parse_args()


def _command(given: argparse.Namespace, images: ImageSet) -> list[str]:
    labels = ",".join(images.class_names)
    place = ["--folder", str(given.folder), "--port", str(given.port)]
    stream = ["--labels", labels, "--name", STREAM, "--thumbnails"]
    return [sys.executable, "-m", "trimtab", "serve", *stream, *place, "--log", "off"]


def _seen(client: Client, server: "subprocess.Popen[bytes]") -> int:
    """How many images the stream has seen, as soon as the server answers."""
    for _ in range(2 * LONGEST_START):
        if server.poll() is not None:
            sys.exit("The server did not start; it says above why.")
        with suppress(TrimtabError, OSError):
            return int(client.stream(STREAM)["seen"])
        time.sleep(0.5)
    sys.exit(f"The server does not answer after {LONGEST_START} seconds.")


def _send(client: Client, images: ImageSet, first: int, given: argparse.Namespace) -> None:
    """One image after the other, in a shuffled order that is the same every time."""
    order = list(range(len(images)))
    random.Random(0).shuffle(order)
    due = time.monotonic()
    for number in range(first, first + given.images) if given.images else itertools.count(first):
        client.classify(STREAM, _png(images, order[number % len(order)]))
        due = max(due + 1 / given.per_second, time.monotonic() - 1)  # after a pause, not all at once
        time.sleep(max(0.0, due - time.monotonic()))


def _png(images: ImageSet, index: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(images.load(index)).save(file, "PNG")
    return file.getvalue()


if __name__ == "__main__":
    main()
