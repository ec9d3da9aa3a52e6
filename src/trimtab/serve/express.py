"""Express: the shortest way of pictures to their route.

It is the way that every picture takes, and FastAPI's matching, stacks and dependencies took a fifth of the event loop's
time on it. The route is the same function, which FastAPI describes; every other request goes to FastAPI.
"""

from typing import Final

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from trimtab.serve.routes.classify import classify, router
from trimtab.serve.routes.parameters import refuse_unknown
from trimtab.serve.service import Service
from trimtab.serve.settings import NAME

ROUTE: Final = next(route for route in router.routes if isinstance(route, APIRoute) and route.endpoint is classify)


class Express:
    """An app around another, which is left out where pictures are posted to a stream."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        stream = _stream(scope)
        if stream is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = ROUTE  # for the metrics
        request = Request(scope, receive)
        await refuse_unknown(request)
        response = await classify(request, self._service, stream)
        await response(scope, receive, send)


def _stream(scope: Scope) -> str | None:
    """The stream that pictures are posted to, if that is what a request does."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    found = ROUTE.path_regex.match(scope["path"])
    return found["stream"] if found and NAME.fullmatch(found["stream"]) else None
