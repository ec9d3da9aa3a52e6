"""Front: what every request passes before a route sees it, and every answer before it leaves.

An id, the door, rates, the whole body within its limits; then security headers, a line in the log and a count. Whatever
goes wrong on the way is one sentence of JSON.
"""

import json
import time
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trimtab.errors import TrimtabError
from trimtab.serve.access import Access
from trimtab.serve.doors import door_of, given_token, refuse_other_sites, refuse_strangers
from trimtab.serve.limits import MEGABYTE, ClientGoneError, HeldBytes, Limits, Rate, read_body, replayed, too_fast
from trimtab.serve.logs import log, request_id
from trimtab.serve.metrics import Metrics
from trimtab.serve.problems import Problem, as_json, of_the_system, problem_of

LOGIN_BYTES = 1 << 16
WITH_BODY: Final = ("POST", "PUT", "PATCH", "DELETE")

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": CONTENT_POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "cache-control": "no-store",
    }.items()
)


class Front:
    """The middleware around everything. `own_machine`: only requests for this machine's own names are answered."""

    def __init__(
        self, app: ASGIApp, *, access: Access, limits: Limits, metrics: Metrics, held: HeldBytes, own_machine: bool
    ) -> None:
        self._app, self._access, self._limits, self._metrics = app, access, limits, metrics
        self._held, self._own_machine = held, own_machine
        self._rate, self._wrong = Rate(limits.requests_per_minute), Rate(limits.wrong_tokens_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        body = bytearray()
        try:
            self._let_in(exchange)
            body = await self._body(exchange, receive)
            await self._app(scope, replayed(body, receive), exchange.send)
        except ClientGoneError:
            exchange.status = exchange.status or 499  # what servers commonly log for a client that has left
        except TrimtabError as error:
            await exchange.refuse(problem_of(error))
        except OSError as error:
            log.exception("the system failed", extra={"facts": {"request_id": exchange.id, "path": scope["path"]}})
            await exchange.refuse(of_the_system(error))
        except Exception:
            log.exception("a bug", extra={"facts": {"request_id": exchange.id, "path": scope["path"]}})
            await exchange.refuse(
                Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Something is wrong with this server; its log says what.")
            )
        finally:
            self._held.let_go(len(body))
            self._note(exchange, len(body))

    def _let_in(self, exchange: "_Exchange") -> None:
        request, method, path = exchange.request, exchange.scope["method"], exchange.scope["path"]
        refuse_other_sites(request, method, own_machine=self._own_machine)
        token = given_token(request, method)
        exchange.scope["state"] |= {"token": token, "request_id": exchange.id, "client": exchange.client}
        known = None if self._access.is_open else self._access.who(token)
        if known is not None:
            exchange.who = f"token {known.name}"
        elif token and not self._access.is_open and (wait := self._wrong.take(exchange.client)):
            raise too_fast(wait, "Too many wrong tokens came from this address")
        if (wait := self._rate.take(exchange.who or exchange.client)) > 0:
            raise too_fast(wait, f"This client may ask {self._limits.requests_per_minute} times per minute")
        door = door_of(method, path)
        if door is not None:
            refuse_strangers(self._access, door, token)

    async def _body(self, exchange: "_Exchange", receive: Receive) -> bytearray:
        headers, path = exchange.request.headers, exchange.scope["path"]
        if exchange.scope["method"] not in WITH_BODY:
            return bytearray()
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Compressed bodies are not taken; send it as it is.")
        most = self._limits.body_megabytes * MEGABYTE
        if path.startswith("/v1/") and path.endswith("/state"):
            most = self._limits.state_megabytes * MEGABYTE
        elif path == "/login":
            most = LOGIN_BYTES
        return await read_body(receive, headers.get("content-length"), most, self._limits.body_seconds, self._held)

    def _note(self, exchange: "_Exchange", received: int) -> None:
        seconds = time.perf_counter() - exchange.start
        scope = exchange.scope
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.request(route, scope["method"] if route != "none" else "any", exchange.status, seconds)
        facts: dict[str, Any] = {
            "request_id": exchange.id,
            "method": scope["method"],
            "path": scope["path"],
            "status": exchange.status,
            "milliseconds": round(1000 * seconds, 1),
            "received": received,
            "client": exchange.client,
        }
        if exchange.who:
            facts["who"] = exchange.who
        log.info("request", extra={"facts": facts})


class _Exchange:
    """A request and its answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.start = time.perf_counter()
        self.scope, self._send = scope, send
        scope.setdefault("state", {})
        self.request = HTTPConnection(scope)
        self.id = request_id(self.request.headers.get("x-request-id"))
        self.client = scope["client"][0] if scope.get("client") else "local"
        self.who = ""
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a part of the answer. What fails here is the connection, whatever it raises."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", [])
            named = {name for name, _ in given}
            added = [pair for pair in HEADERS if pair[0] not in named]
            message = {**message, "headers": [*given, *added, (b"x-request-id", self.id.encode())]}
        try:
            await self._send(message)
        except Exception as error:
            raise ClientGoneError from error

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer is on its way already."""
        if self.status:
            return
        body = json.dumps(as_json(problem, self.id)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **problem.headers}
        if problem.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
            headers["connection"] = "close"  # the rest of the body is not waited for
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        try:
            await self.send({"type": "http.response.start", "status": int(problem.status), "headers": pairs})
            await self.send({"type": "http.response.body", "body": body})
        except ClientGoneError:
            return
