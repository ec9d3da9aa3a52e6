"""Damaged requests, many of them: each must be answered, in good time, and never with a server error.

    python -m tests.audit.serve_fuzz --count 10000 --seed 0

Good requests of every kind (pictures, forms, base64, features, states, settings, switches) are damaged, each in one or
two ways: another method, path, header or type; bytes flipped, cut off, doubled or made up; a JSON value of another
kind; lengths that lie, chunks that are none, lines that break off. They go over real connections, as bytes. At
the end the server must still answer and learn, and a new server on the same folder must know the same.
"""

import argparse
import base64
import io
import json
import logging
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from tests.serving import SETTINGS, picture, read_answer, rows, served
from trimtab.serve.client import Client
from trimtab.serve.limits import Limits
from trimtab.serve.logs import LOGGER

SECONDS = 60.0
AT_ONCE = 32
KEPT = "kept"  # a stream that no request names
LIMITS = Limits(body_megabytes=1, head_seconds=2, body_seconds=1, pixels=4_000_000)
ODD_TEXTS = (
    "",
    "..",
    "%00",
    "%2e%2e%2f",
    "\u00e9",
    "a" * 3000,
    "one/../two",
    "%ff",
    "{}",
    "';--",
    "one%0d%0aX: y",
    "0",
)
ODD_VALUES: tuple[Any, ...] = (None, True, -1, 0, 1e308, 10**30, "", "x", [], {}, [[]], [None], {"a": 1}, "\u0000")
TYPES = (
    "application/json",
    "multipart/form-data; boundary=b",
    "image/png",
    "text/plain",
    "",
    "x",
    "application/json; a=",
)
HEADERS = (
    ("Idempotency-Key", "k" * 500),
    ("Idempotency-Key", "same"),
    ("X-Request-ID", "a\tb"),
    ("Authorization", "Basic !!!"),
    ("Cookie", "trimtab_token=\x01"),
    ("Content-Encoding", "gzip"),
    ("Expect", "100-continue"),
    ("Connection", "upgrade"),
    ("Upgrade", "websocket"),
    ("Range", "bytes=0-1"),
    ("Accept", "nonsense"),
    ("Host", "evil.example"),
    ("Origin", "null"),
    ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"),
    ("Content-Length", "abc"),
    ("Transfer-Encoding", "chunked"),
    ("X-Long", "x" * 70_000),
)


@dataclass(frozen=True)
class Shot:
    """A request, before it becomes bytes."""

    method: str
    path: str
    body: bytes = b""
    kind: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def to_bytes(self, host: str) -> bytes:
        """As it is sent."""
        given = {name.lower() for name, _ in self.headers}
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        lines += [] if "host" in given else [f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"Content-Type: {self.kind}"] if self.kind else []
        lines += [] if given & {"content-length", "transfer-encoding"} else [f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + self.body


def good_shots(state: bytes) -> list[Shot]:
    """One request of every kind that is answered well; `state` is a stream's."""
    one = "/v1/streams/one"
    image, file = picture(), io.BytesIO()
    np.save(file, rows(3))
    part = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    coded = base64.b64encode(image).decode()
    task = {"id": 1, "data": {"image": f"data:image/png;base64,{coded}"}}
    said = {"result": [{"value": {"choices": ["red"]}}]}

    def js(method: str, path: str, content: Any) -> Shot:
        return Shot(method, path, json.dumps(content).encode(), "application/json")

    looks = (
        "",
        "/cache",
        "/health",
        "/history",
        "/recent?limit=5",
        "/flips",
        "/snapshots",
        "/state",
        "/thumbnails/0-0",
    )
    return [
        Shot("POST", f"{one}/classify?top=2&explain=parts", image, "image/png"),
        Shot("POST", f"{one}/classify?learn=false&source=s", picture("blue", 1, "JPEG"), "application/octet-stream"),
        Shot("POST", f"{one}/classify", part + image + b"\r\n" + part + image + b"\r\n--b--\r\n", TYPES[1]),
        js("POST", f"{one}/classify", {"inputs": coded, "parameters": {"top_k": 1}}),
        js("POST", "/predictions/one", {"inputs": [coded, coded], "parameters": {"candidate_labels": ["red"]}}),
        Shot("POST", f"{one}/features", file.getvalue(), "application/octet-stream"),
        Shot("POST", f"{one}/features", save({"features": rows(2)}), "application/octet-stream"),
        Shot("PUT", "/v1/streams/two/state", state, "application/octet-stream"),
        js("POST", "/v1/streams", {"name": "new", **SETTINGS}),
        js("POST", f"{one}/feedback", {"id": "0-0", "label": "red"}),
        js("POST", f"{one}/snapshots", {"note": "n"}),
        js("POST", "/label-studio/one/predict", {"tasks": [task]}),
        js("POST", "/label-studio/one/webhook", {"action": "ANNOTATION_CREATED", "task": task, "annotation": said}),
        js("POST", "/label-studio/one/setup", {}),
        *(Shot("POST", f"/v1/streams/two/{switch}") for switch in ("freeze", "resume", "reset")),
        *(Shot("GET", f"{one}{look}") for look in looks),
        *(Shot("GET", path) for path in ("/v1/streams", "/v2", "/v2/models/one", "/metrics", "/openapi.json")),
        Shot("DELETE", f"{one}/cache/0-1"),
        Shot("DELETE", f"{one}/sources/s"),
        Shot("DELETE", "/v1/streams/new"),
        Shot("DELETE", f"{one}/snapshots/nobody"),
        Shot("POST", f"{one}/snapshots/nobody/restore"),
    ]


def _other_method(shot: Shot, rng: np.random.Generator) -> Shot:
    return replace(shot, method=_one(rng, ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "FOO")))


def _other_path(shot: Shot, rng: np.random.Generator) -> Shot:
    parts = shot.path.split("/")
    parts[rng.integers(1, len(parts))] = _one(rng, ODD_TEXTS)
    return replace(shot, path="/".join(parts) or "/")


def _other_query(shot: Shot, rng: np.random.Generator) -> Shot:
    name = _one(rng, ("top", "learn", "explain", "source", "limit", "label", "nonsense"))
    return replace(shot, path=f"{shot.path}{'&' if '?' in shot.path else '?'}{name}={_one(rng, ODD_TEXTS)}")


def _other_header(shot: Shot, rng: np.random.Generator) -> Shot:
    return replace(shot, headers=(*shot.headers, _one(rng, HEADERS)))


def _other_type(shot: Shot, rng: np.random.Generator) -> Shot:
    return replace(shot, kind=_one(rng, TYPES))


def _damaged_body(shot: Shot, rng: np.random.Generator) -> Shot:
    body = bytearray(shot.body or b"{}")
    place, length = int(rng.integers(len(body))), int(rng.integers(1, 40))
    match int(rng.integers(6)):
        case 0:
            body = body[:place]
        case 1:
            body[place] ^= 1 << int(rng.integers(8))
        case 2:
            body[place : place + length] = rng.bytes(length)
        case 3:
            body[place:place] = body[place : place + length] * 3
        case 4:
            body[place : place + length] = b""
        case _:
            body = bytearray(rng.bytes(int(rng.integers(2000))))
    return replace(shot, body=bytes(body))


def _other_value(shot: Shot, rng: np.random.Generator) -> Shot:
    """A JSON value of another kind, somewhere; other bodies are damaged as bytes."""
    try:
        content = json.loads(shot.body)
    except ValueError:
        return _damaged_body(shot, rng)
    inner, key = {"": content}, ""
    while isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
        inner = inner[key] if isinstance(inner[key], dict) else dict(enumerate(inner[key]))
        key = list(inner)[rng.integers(len(inner))]
    if rng.random() < 0.2 and key != "":
        del inner[key]
    else:
        inner[key] = _one(rng, ODD_VALUES)
    changed = inner[""] if key == "" else content
    return replace(shot, body=json.dumps(changed).encode())


DAMAGES: tuple[Callable[[Shot, np.random.Generator], Shot], ...] = (
    _other_method,
    _other_path,
    _other_query,
    _other_header,
    _other_type,
    _damaged_body,
    _damaged_body,
    _other_value,
    _other_value,
)


def _one(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def fuzz(count: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Send so many: how often which status came, and what was wrong."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    heard = _Heard()
    for name in ("uvicorn.error", LOGGER):
        logging.getLogger(name).addHandler(heard)
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder), limits=LIMITS, streams=("one", "two", KEPT)) as address:
            client, host = Client(address), address.removeprefix("http://")
            client.classify("one", picture())
            shots = good_shots(client.state("two"))
            contents = [_damaged(shots, rng, host) for _ in range(count)]
            with ThreadPoolExecutor(AT_ONCE) as pool:  # many of them wait for a time limit
                for content, (verdict, fault) in zip(contents, pool.map(partial(_sent, host), contents), strict=True):
                    counts[verdict] += 1
                    if fault:
                        faults.append(f"{fault}: {content[:300]!r}")
            if client.classify(KEPT, picture("green", 99)).seen != 1:
                faults.append(
                    "At the end the server does not learn any more, or a stream that nobody named has learned."
                )
            known = {name: client.stream(name) for name in client.streams()}
        with served(Path(folder), limits=LIMITS, streams=()) as address:
            client = Client(address)
            if known != {name: client.stream(name) for name in client.streams()}:
                faults.append("A new server on the same folder knows something else.")
    for name in ("uvicorn.error", LOGGER):
        logging.getLogger(name).removeHandler(heard)
    return counts, faults + heard.faults


class _Heard(logging.Handler):
    """What the server's log calls an error is a fault, whatever the client was told.

    But for one line of uvicorn's: a client may send nonsense behind its request, and end its own answer so.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "ASGI callable returned without completing response.":
            return
        self.faults.append(f"in the log: {record.getMessage()} {record.exc_info}")


def _damaged(shots: list[Shot], rng: np.random.Generator, host: str) -> bytes:
    shot = _one(rng, tuple(shots))
    for _ in range(int(rng.integers(1, 3))):
        shot = _one(rng, DAMAGES)(shot, rng)
    content = shot.to_bytes(host)
    return content[: int(rng.integers(len(content)))] if rng.random() < 0.02 else content  # some break off


def _sent(host: str, content: bytes) -> tuple[str, str]:
    """What came back, and what is wrong with it."""
    name, port = host.split(":")
    start = time.monotonic()
    try:
        with socket.create_connection((name, int(port)), timeout=SECONDS) as connection:
            connection.sendall(content)
            status, _, body = read_answer(connection, body_follows=not content.startswith(b"HEAD"))
    except ConnectionError:
        return "closed", ""  # the server did not want to read on, which is its right
    except TimeoutError:
        return "silent", "no answer"
    if status == 0:
        return "closed", "" if time.monotonic() - start < SECONDS else "closed late"
    if status >= 500 and status not in (501, 503, 505, 507):
        return str(status), f"status {status}, {body[:200]!r}"
    if b"Traceback" in body:
        return str(status), "a traceback"
    return str(status), ""


def main() -> int:
    """Send them, name the faults, print the counts; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.serve_fuzz")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    counts, faults = fuzz(chosen.count, chosen.seed)
    for fault in faults[:20]:
        print(fault)
    told = ", ".join(f"{verdict}: {number}" for verdict, number in sorted(counts.items()))
    print(f"damaged requests: {counts.total()} ({told}), faults {len(faults)}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
