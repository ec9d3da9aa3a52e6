"""The real server in a process of its own, with a stand-in encoder, and clients that never give up."""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.audit.kill_processes import Run, start_function
from tests.two_cones import two_cones
from trimtab.errors import TrimtabError

STREAMS = {"mcp": True, "keel": True, "tda": True, "plain-mcp": False}  # names, and whether a guard is on
CLIENTS_PER_STREAM = 2
IMAGES = 40_000
TASK, FEATURES, _, _ = two_cones(IMAGES)
SNAPSHOT_EVERY = 60


class TwoCones:
    """An encoder whose texts and images lie apart, as CLIP's do; the clients bring their features."""

    name, dim, input_size, logit_scale, fingerprint = "two-cones", TASK.dim, 8, TASK.logit_scale, "two cones"

    def encode_images(self, pixels: Any) -> Any:
        return FEATURES[: len(pixels)]

    def encode_texts(self, texts: Any) -> Any:
        return np.stack([TASK.text_prototypes[int(next(w for w in text.split() if w.isdigit()))] for text in texts])


def settings_of(name: str) -> dict[str, Any]:
    """What a stream of the audit is made with."""
    return {
        "name": name,
        "labels": list(TASK.class_names),
        "encoder": "two-cones",
        "templates": ["{}"],
        "method": name.removeprefix("plain-"),
        "guard": STREAMS[name],
        "snapshot_every": SNAPSHOT_EVERY,
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start_server(folder: Path, port: int) -> Run:
    """`trimtab serve` on a folder, forked from this process, which has imported everything."""
    arguments = ["serve", "--folder", "streams", "--port", str(port), "-e", "two-cones", "--log", "off"]

    def command() -> None:
        from trimtab import encoders
        from trimtab.cli import main

        encoders.load_encoder = lambda *_, **__: TwoCones()  # type: ignore[assignment]
        sys.argv = ["trimtab", *arguments]
        main.run()

    return start_function(command, folder)


class Clients:
    """A process whose threads send one image after the other, each until it is answered, whatever the server does."""

    def __init__(self, folder: Path, port: int) -> None:
        self._results, self._stop = folder / "answers.json", folder / "stop"
        self._run = start_function(lambda: _send_all(port, self._results, self._stop), folder)

    def finish(self, seconds: float) -> list[dict[str, Any]] | None:
        """Let each thread finish its request; all answers, or None if they do not come."""
        self._stop.touch()
        if not self._run.ended_within(seconds) or self._run.code != 0:
            return None
        return json.loads(self._results.read_text())  # type: ignore[no-any-return]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._run.send(9)


def _send_all(port: int, results: Path, stop: Path) -> None:
    from trimtab.serve import client as module

    module.TRIES = 1  # type: ignore[misc]  # they try again by themselves, sooner
    answers: list[dict[str, Any]] = []

    def work(name: str, numbers: Iterator[int]) -> None:
        client = module.Client(f"http://127.0.0.1:{port}", timeout=30)
        random = np.random.default_rng(hash(name) % 1000 + next(numbers))
        while not stop.exists():
            images = [next(numbers) for _ in range(int(random.integers(1, 4)))]
            while True:  # until it is answered
                try:
                    if random.random() < 0.1:
                        client.classify_features(name, FEATURES[images[:1]], learn=False)
                    got = client.classify_features(name, FEATURES[images], key=f"image {images[0]}", top=TASK.classes)
                    break
                except module.ServerError as error:
                    if error.status != 503:
                        raise
                except TrimtabError:
                    time.sleep(0.01)
            for image, reply in zip(images, got, strict=True):
                scores = {guess.label: guess.score for guess in reply.predictions}
                answers.append({"stream": name, "image": image, "id": reply.id, "seen": reply.seen, "scores": scores})

    threads = []
    for name in STREAMS:
        shared = iter(range(IMAGES))
        lock = threading.Lock()
        numbers = _locked(shared, lock)
        threads += [threading.Thread(target=work, args=(name, numbers)) for _ in range(CLIENTS_PER_STREAM)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scratch = results.with_suffix(".part")
    scratch.write_text(json.dumps(answers))
    scratch.replace(results)


def _locked(numbers: Iterator[int], lock: threading.Lock) -> Iterator[int]:
    class Locked:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            with lock:
                return next(numbers)

    return Locked()
