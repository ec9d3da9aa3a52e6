"""Client: a server's streams from Python, with nothing but the standard library.

A picture that is sent again, because an answer was lost or the server was busy, is not learned again: every request
that learns carries a key of its own.
"""

import http.client
import io
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.serve.records import Guess

TRIES = 4
LONGEST_PAUSE = 10.0  # seconds between two tries
LONGEST_IDLE = 5.0  # seconds; the server closes a connection that is not used for longer
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

Picture = bytes | str | Path


class ServerError(TrimtabError):
    """What a server refused, in its own sentence."""

    def __init__(self, status: int, sentence: str, retry_after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True)
class Reply:
    """What a stream says of one picture."""

    id: str  # for a later correction
    label: str
    score: float
    predictions: tuple[Guess, ...]  # the best labels, best first
    zero_shot: Guess  # what the text alone says
    seen: int
    version: int
    learned: bool
    why_not: str
    agree: bool
    clearness: float
    unknown: bool
    replayed: bool
    durable: bool
    parts: Mapping[str, Guess]  # with explain=True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Reply":
        """From the interface's JSON; what a newer server adds is left out."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        known["predictions"] = tuple(Guess(**each) for each in given["predictions"])
        known["zero_shot"] = Guess(**given["zero_shot"])
        known["parts"] = {name: Guess(**each) for name, each in (given.get("parts") or {}).items()}
        return cls(**known)


class Client:
    """A server at `url`, such as http://127.0.0.1:8000; `token` if it asks for one. Threads may share a client."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(arguments.text("url", url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TrimtabError(f"url must be an address such as http://127.0.0.1:8000, not {url!r}.")
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._start, self._timeout = parts.path.rstrip("/"), timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._own = threading.local()

    def streams(self) -> list[str]:
        """The names of the streams that the token may see."""
        return list(self._json("GET", "/v1/streams")["streams"])

    def create(self, name: str, labels: Sequence[str], **settings: Any) -> dict[str, Any]:
        """Make a stream, or find it as asked for; `settings` are those of `trimtab.serve.StreamSettings`."""
        return self._json("POST", "/v1/streams", {"name": name, "labels": list(labels), **settings})

    def stream(self, name: str) -> dict[str, Any]:
        """A stream: what it was made with, and how it is."""
        return self._json("GET", _at(name))

    def delete(self, name: str) -> None:
        """Delete a stream with all that it has learned."""
        self._bytes("DELETE", _at(name))

    def classify(self, name: str, picture: Picture, **options: Any) -> Reply:
        """What a picture shows, given as a file's path or bytes; the options are those of `classify_many`."""
        (reply,) = self.classify_many(name, [picture], **options)
        return reply

    def classify_many(
        self,
        name: str,
        pictures: Sequence[Picture],
        *,
        learn: bool = True,
        top: int = 5,
        explain: bool = False,
        source: str | None = None,
        key: str | None = None,
    ) -> list[Reply]:
        """What pictures show, in one request; if one cannot be read, none is learned.

        `learn=False` looks only; `explain` adds the best label of each part; `source` says who sent it, for the guard's
        quota. `key` is the idempotency key, if you want to repeat the request yourself.
        """
        boundary = secrets.token_hex(16)
        files = [each if isinstance(each, bytes) else _read(each) for each in pictures]
        head = b'--%s\r\nContent-Disposition: form-data; name="images"; filename="%d"\r\n\r\n'
        parts = [head % (boundary.encode(), number) + file + b"\r\n" for number, file in enumerate(files)]
        body = b"".join([*parts, b"--%s--\r\n" % boundary.encode()])
        kind = f"multipart/form-data; boundary={boundary}"
        return self._asked(f"{_at(name)}/classify?{_query(learn, top, explain, source)}", body, kind, key)

    def classify_features(
        self,
        name: str,
        features: Any,
        *,
        learn: bool = True,
        top: int = 5,
        explain: bool = False,
        source: str | None = None,
        key: str | None = None,
    ) -> list[Reply]:
        """The same for features of the stream's own encoder: (d), (images, d) or (images, views, d)."""
        import numpy as np

        file = io.BytesIO()
        np.save(file, arguments.numbers("features", features), allow_pickle=False)
        path = f"{_at(name)}/features?{_query(learn, top, explain, source)}"
        return self._asked(path, file.getvalue(), "application/octet-stream", key)

    def feedback(self, name: str, image: str, label: str) -> dict[str, Any]:
        """Say what an image, known by its reply's id, really shows."""
        return self._json("POST", f"{_at(name)}/feedback", {"id": image, "label": label})

    def evict(self, name: str, image: str) -> int:
        """Let go of what an image left in the caches; how many items there were."""
        return int(self._json("DELETE", f"{_at(name)}/cache/{quote(image, safe='')}")["items"])

    def freeze(self, name: str) -> dict[str, Any]:
        """Learn nothing until `resume`."""
        return self._json("POST", f"{_at(name)}/freeze")

    def resume(self, name: str) -> dict[str, Any]:
        """Learn again."""
        return self._json("POST", f"{_at(name)}/resume")

    def reset(self, name: str) -> dict[str, Any]:
        """Forget everything learned; a snapshot of it is kept."""
        return self._json("POST", f"{_at(name)}/reset")

    def snapshots(self, name: str) -> list[dict[str, Any]]:
        """The newest first."""
        return list(self._json("GET", f"{_at(name)}/snapshots")["snapshots"])

    def take_snapshot(self, name: str, note: str = "") -> str:
        """Keep the state as it is; its name."""
        return str(self._json("POST", f"{_at(name)}/snapshots", {"note": note})["name"])

    def restore(self, name: str, snapshot: str) -> dict[str, Any]:
        """Go back to a snapshot; what is known now is kept as another."""
        return self._json("POST", f"{_at(name)}/snapshots/{quote(snapshot, safe='')}/restore")

    def delete_snapshot(self, name: str, snapshot: str) -> None:
        """Let go of a snapshot."""
        self._bytes("DELETE", f"{_at(name)}/snapshots/{quote(snapshot, safe='')}")

    def state(self, name: str) -> bytes:
        """What was learned, as a file that `Stream.load` and `Classifier.load` read."""
        return self._bytes("GET", f"{_at(name)}/state")

    def put_state(self, name: str, state: bytes) -> dict[str, Any]:
        """Continue from a state; what is known now is kept as a snapshot."""
        return dict(json.loads(self._bytes("PUT", f"{_at(name)}/state", state)))

    def cache(self, name: str) -> list[dict[str, Any]]:
        """What the caches hold, per label."""
        return list(self._json("GET", f"{_at(name)}/cache")["labels"])

    def health(self, name: str) -> dict[str, Any]:
        """What the stream notices of itself, without labels."""
        return self._json("GET", f"{_at(name)}/health")

    def events(self, name: str) -> Iterator[dict[str, Any]]:
        """What happens in a stream, as it happens, until you stop asking."""
        connection = self._connection()
        try:
            connection.request("GET", f"{self._start}{_at(name)}/events", headers=self._headers)
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise _refusal(answer.status, answer.read(), answer.headers.get("Retry-After"))
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[len(b"data: ") :])
        finally:
            connection.close()

    def _asked(self, path: str, body: bytes, kind: str, key: str | None) -> list[Reply]:
        headers = {"Content-Type": kind, "Idempotency-Key": key or secrets.token_hex(16)}
        return [Reply.of(each) for each in json.loads(self._bytes("POST", path, body, headers))["answers"]]

    def _json(self, method: str, path: str, content: Any = None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        return dict(json.loads(self._bytes(method, path, body, {"Content-Type": "application/json"} if body else None)))

    def _bytes(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """An answer's body. What may be repeated is: everything that only looks, and whatever carries a key."""
        repeatable = method == "GET" or "Idempotency-Key" in (headers or {})
        for left in reversed(range(TRIES)):
            pause = 0.2 * 2 ** (TRIES - 1 - left)
            try:
                return self._once(method, path, body, headers)
            except ServerError as error:
                if error.status not in LATER or not left:
                    raise
                pause = max(pause, error.retry_after)
            except (OSError, http.client.HTTPException) as error:
                self._forget()
                if not (repeatable and left):
                    raise TrimtabError(f"{self._host} cannot be reached: {error}.") from error
            time.sleep(min(pause, LONGEST_PAUSE))
        raise AssertionError  # the last try returns or raises

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None) -> bytes:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None or time.monotonic() - self._own.used > LONGEST_IDLE:
            self._forget()
            connection = self._own.connection = self._connection()
        self._own.used = time.monotonic()
        connection.request(method, self._start + path, body, {**self._headers, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(answer.status, content, answer.headers.get("Retry-After"))
        return content

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _forget(self) -> None:
        """A connection that broke is not used again."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None


def _at(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"


def _query(learn: bool, top: int, explain: bool, source: str | None) -> str:
    given = {"learn": str(learn).lower(), "top": top, "explain": "parts" if explain else None, "source": source}
    return urlencode({name: value for name, value in given.items() if value is not None})


def _read(picture: str | Path) -> bytes:
    path = arguments.place("picture", picture)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TrimtabError(f"{path} cannot be read: {error.strerror}.") from None


def _refusal(status: int, content: bytes, retry_after: str | None) -> ServerError:
    try:
        sentence = str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        sentence = f"The server answered with the status {status}."
    return ServerError(status, sentence, float(retry_after) if retry_after and retry_after.isdecimal() else 0.0)
