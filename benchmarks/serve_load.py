"""`trimtab serve` under load: real pictures from many clients, against the bare encoder.

python -m benchmarks.serve_load [--images 1600] [--clients 16]

The server is the command itself, in a process of its own, with `lite` and CIFAR-10's labels, learning and writing every
image down. The clients are threads of another process on the same two cores; their processor time is counted against
the server. The bare encoder gets pixels that are decoded, resized and stacked already, in batches of 16: by one call
after the other, and by one per core side by side; the faster of both is its own batched throughput.
"""

import argparse
import io
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

TURNS = 4
STREAM = "cifar"


@dataclass(frozen=True)
class Load:
    """What the clients saw: how long each request took, all of them together, and the clients' processor time."""

    latencies: list[float]
    seconds: float
    client_cpu: float


def show(console: Console, images: int = 1600, clients: int = 16) -> None:
    """Measure and print."""
    files, pixels, labels = _pictures(images)
    with tempfile.TemporaryDirectory() as scratch, _Server(scratch, labels) as server:
        encoders = _bare_encoders(pixels)
        requests = [_request(server.netloc, f"/v1/streams/{STREAM}/classify", file) for file in files]
        _in_process(server.address, requests[:64], clients)  # warms up
        speeds: dict[str, list[float]] = {name: [] for name in (*encoders, "served")}
        loads, before, cpu, own_cpu = [], server.batches(), server.cpu(), time.process_time()
        for turn in range(TURNS):  # in turns, so that a disturbance of the machine hits all
            for name, encode in encoders.items():
                speeds[name].append(len(pixels) / _seconds(encode))
            load = _in_process(server.address, requests[turn::TURNS], clients)
            loads.append(load)
            speeds["served"].append(len(load.latencies) / load.seconds)
        encoded = len(encoders) * TURNS * len(pixels)
        cpus = (1e3 * (server.cpu() - cpu) / len(requests), 1e3 * (time.process_time() - own_cpu) / encoded)
        _print(console, speeds, loads, (before, server.batches()), cpus)
        alone = _in_process(server.address, requests[:100], 1)
        alive = _in_process(server.address, [_request(server.netloc, "/v2/health/live", None)] * 300, 1)
        _print_overhead(console, alone, alive, _classifier_milliseconds(labels, files[:100]))


def _pictures(images: int) -> tuple[list[bytes], NDArray[np.uint8], tuple[str, ...]]:
    """CIFAR-10's test images as PNG and JPEG files in turn; the same as the encoder takes them; the class names."""
    from trimtab.data.catalog import load_dataset
    from trimtab.images.views import resize_shorter_and_crop

    data = load_dataset("cifar10", None)
    chosen = np.random.default_rng(0).choice(len(data), images, replace=False)
    files = []
    for number, index in enumerate(chosen):
        file = io.BytesIO()
        Image.fromarray(data.load(int(index))).save(file, "JPEG" if number % 2 else "PNG", quality=95)
        files.append(file.getvalue())
    views = [resize_shorter_and_crop(data.load(int(index)), 224) for index in chosen[: images // TURNS]]
    return files, np.stack(views), tuple(data.class_names)


def _bare_encoders(pixels: NDArray[np.uint8]) -> dict[str, Callable[[], object]]:
    """Name -> a function that encodes all pixels; each with sessions of its own."""
    from trimtab.encoders import load_encoder, onnx

    batches = [pixels[start : start + 16] for start in range(0, len(pixels), 16)]
    together = load_encoder("lite")
    together.encode_images(pixels[:1])
    onnx.use_threads(1)
    beside = load_encoder("lite")
    beside.encode_images(pixels[:1])
    cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else len(os.sched_getaffinity(0))
    pool = ThreadPoolExecutor(cores or 1)

    return {
        "encoder, one call at a time": lambda: [together.encode_images(batch) for batch in batches],
        "encoder, one call per core": lambda: list(pool.map(beside.encode_images, batches)),
    }


def _classifier_milliseconds(labels: Sequence[str], files: Sequence[bytes]) -> float:
    from trimtab.classifier import Classifier

    classifier = Classifier("lite", labels)
    classifier.classify(files[0])
    return 1e3 * float(np.median([_seconds(partial(classifier.classify, file)) for file in files]))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class _Server:
    """The command, in a process of its own."""

    def __init__(self, folder: str, labels: Sequence[str]) -> None:
        streams = str(Path(folder, "streams"))
        options = ["--labels", ",".join(labels), "--name", STREAM, "--folder", streams, "--port", "0", "--log", "json"]
        log = Path(folder, "log.jsonl")  # a file, as in production; whoever read a pipe would share the server's cores
        with log.open("w") as writing:
            self._process = subprocess.Popen([sys.executable, "-m", "trimtab", "serve", *options], stderr=writing)
        while not (line := next((line for line in log.read_text().splitlines() if '"serving"' in line), "")):
            if self._process.poll() is not None:
                raise SystemExit(f"The server did not start.\n{log.read_text()}")
            time.sleep(0.1)
        self.address = str(json.loads(line)["address"])
        self.netloc = urlsplit(self.address).netloc

    def __enter__(self) -> "_Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def batches(self) -> tuple[float, float, float]:
        """How many batches were encoded, of how many pictures, in how many seconds."""
        with urllib.request.urlopen(f"{self.address}/metrics") as answer:
            text = answer.read().decode()
        names = ("trimtab_batch_pictures_count", "trimtab_batch_pictures_sum", "trimtab_batch_seconds_sum")
        count, pictures, seconds = (float(re.findall(rf"^{name} (.+)$", text, re.MULTILINE)[0]) for name in names)
        return count, pictures, seconds

    def cpu(self) -> float:
        """Processor seconds so far."""
        import psutil

        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)


def _request(netloc: str, path: str, body: bytes | None) -> bytes:
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {netloc}\r\n"
    if body is not None:
        head += f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + (body or b"")


def _in_process(address: str, requests: Sequence[bytes], clients: int) -> Load:
    """All requests, by so many clients at once, from a process of their own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_load, args=(theirs, urlsplit(address).port, list(requests), clients))
    process.start()
    load: Load = ours.recv()
    process.join()
    return load


def _load(pipe: Any, port: int, requests: list[bytes], clients: int) -> None:
    """Each client sends its next request when it has the answer to the last."""
    waiting, lock = iter(requests), threading.Lock()
    latencies: list[float] = []
    barrier = threading.Barrier(clients + 1)

    def client() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            barrier.wait()
            while True:
                with lock:
                    request = next(waiting, None)
                if request is None:
                    return
                start = time.perf_counter()
                connection.sendall(request)
                status = _answer(connection)
                latencies.append(time.perf_counter() - start)
                if status != 200:
                    raise SystemExit(f"the server answered {status}")

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.join()
    pipe.send(Load(latencies, time.perf_counter() - start, time.process_time() - cpu))


def _answer(connection: socket.socket) -> int:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return int(head[9:12])


def _print(
    console: Console,
    speeds: dict[str, list[float]],
    loads: list[Load],
    batches: tuple[tuple[float, float, float], tuple[float, float, float]],
    cpus: tuple[float, float],
) -> None:
    latencies = np.concatenate([load.latencies for load in loads])
    table = Table(title=f"{len(latencies)} pictures", title_justify="left", highlight=False)
    for column in ("", "pictures/s", "share of the faster encoder", "least in a turn"):
        table.add_column(column)
    names = [name for name in speeds if name != "served"]
    totals = {name: len(each) / sum(1 / speed for speed in each) for name, each in speeds.items()}
    best = max(names, key=totals.__getitem__)
    for name, each in speeds.items():
        least = min(mine / theirs for mine, theirs in zip(each, speeds[best], strict=True))
        table.add_row(name, f"{totals[name]:.0f}", f"{totals[name] / totals[best]:.1%}", f"{least:.1%}")
    console.print(table)
    count, pictures, seconds = (late - early for early, late in zip(*batches, strict=True))
    batch, full = seconds / count, 16 / totals[best]
    for name, figure in zip(("p50", "p99", "slowest"), np.percentile(latencies, [50, 99, 100]), strict=True):
        times = f"{figure / batch:.1f} of the server's batches, {figure / full:.1f} of the encoder's own of 16"
        console.print(f"{name:<8}{1e3 * figure:7.1f} ms  ({times})", highlight=False)
    clients = 1e3 * sum(load.client_cpu for load in loads) / len(latencies)
    console.print(
        f"batches of {pictures / count:.1f} pictures in {1e3 * batch:.1f} ms; the encoder's own of 16 in "
        f"{1e3 * full:.1f} ms\nprocessor time per picture: server {cpus[0]:.2f} ms, of which the bare encoder takes "
        f"{cpus[1]:.2f} ms; clients {clients:.2f} ms",
        highlight=False,
    )


def _print_overhead(console: Console, alone: Load, alive: Load, classifier: float) -> None:
    one, nothing = (1e3 * float(np.median(load.latencies)) for load in (alone, alive))
    console.print(
        f"one client: {one:.2f} ms per picture, of which `Classifier.classify` takes {classifier:.2f} ms, so HTTP, the "
        f"journal and the threads take {one - classifier:.2f} ms; a request for nothing takes {nothing:.2f} ms",
        highlight=False,
    )


def main() -> None:
    """The same with numbers of one's own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--clients", type=int, default=16)
    chosen = parser.parse_args()
    show(Console(width=130), chosen.images, chosen.clients)


if __name__ == "__main__":
    main()
