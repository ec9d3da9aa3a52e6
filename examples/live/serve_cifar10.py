"""A server that lives: `trimtab serve` with CIFAR-10's labels, and real images sent to it, a few per second.

    make serve                                   # or: python examples/live/serve_cifar10.py --per-second 20

Open the address that it prints. Nobody tells the stream what the images show: labels stay here. Ctrl-C ends both; what
was learned is kept, and the next start continues with the next image.
"""

import argparse
import io
import itertools
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
from PIL import Image

from trimtab.data.base import ImageSet
from trimtab.data.fetched.cifar import cifar10
from trimtab.files import cache_folder

STREAM = "cifar10"
LONGEST_START = 180  # seconds; the first start exports the encoder


def main() -> None:
    """Start the server, send images until Ctrl-C, and let it write everything down."""
    given = _options()
    images = cifar10()
    server = subprocess.Popen(_command(given, images))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{given.port}", timeout=60) as client:
            _wait_until_ready(client, server)
            print(f"Watch it at http://127.0.0.1:{given.port}/streams/{STREAM}. Ctrl-C ends it.", flush=True)
            _send(client, images, given)
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
    parser.add_argument("--folder", type=Path, default=cache_folder("demo") / "streams", help="where the stream is kept")
    return parser.parse_args()


def _command(given: argparse.Namespace, images: ImageSet) -> list[str]:
    labels = ",".join(images.class_names)
    place = ["--folder", str(given.folder), "--port", str(given.port)]
    stream = ["--labels", labels, "--name", STREAM, "--thumbnails"]
    return [sys.executable, "-m", "trimtab", "serve", *stream, *place, "--log", "off"]


def _wait_until_ready(client: httpx.Client, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(2 * LONGEST_START):
        if server.poll() is not None:
            sys.exit("The server did not start; it says above why.")
        with suppress(httpx.TransportError):
            if client.get("/v2/health/ready").is_success:
                return
        time.sleep(0.5)
    sys.exit(f"The server is not ready after {LONGEST_START} seconds.")


def _send(client: httpx.Client, images: ImageSet, given: argparse.Namespace) -> None:
    """One image after the other, in a shuffled order that is the same every time."""
    order = list(range(len(images)))
    random.Random(0).shuffle(order)
    first = client.get(f"/v1/streams/{STREAM}").raise_for_status().json()["seen"]
    numbers = range(first, first + given.images) if given.images else itertools.count(first)
    due = time.monotonic()
    for number in numbers:
        picture = _png(images, order[number % len(order)])
        headers = {"content-type": "image/png", "idempotency-key": f"image-{number}"}  # a retry is learned once
        client.post(f"/v1/streams/{STREAM}/classify", content=picture, headers=headers).raise_for_status()
        due += 1 / given.per_second
        time.sleep(max(0.0, due - time.monotonic()))


def _png(images: ImageSet, index: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(images.load(index)).save(file, "PNG")
    return file.getvalue()


if __name__ == "__main__":
    main()
