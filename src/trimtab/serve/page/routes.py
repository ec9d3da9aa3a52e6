"""Routes of the page: what is read. What changes something is in `actions`."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from trimtab.errors import TrimtabError
from trimtab.serve.page import shown
from trimtab.serve.page.actions import ACTIONS, Action
from trimtab.serve.page.alarms import alarms, refused
from trimtab.serve.page.check_page import check_picture, show_check
from trimtab.serve.page.desk import Desk
from trimtab.serve.page.login import log_in, log_out, show_login
from trimtab.serve.page.pages import STATIC, Pages, go_to, page, refusal
from trimtab.serve.page.safety import refuse_unproven, token_of
from trimtab.serve.page.trial import show_trial, tried
from trimtab.serve.problems import problem_of

STREAMS, FLIPS, CLASSES, EVENTS, RECENT = 25, 24, 6, 6, 20  # per page
A_DAY = "private, max-age=86400"
FOREVER = "public, max-age=31536000, immutable"
NO_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 96"><rect width="128" height="96" fill="#8883"/>'
    '<text x="64" y="52" font-family="sans-serif" font-size="11" text-anchor="middle" fill="#888">no picture</text>'
    "</svg>"
)

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(state: State) -> list[BaseRoute]:
    """All addresses of the page, for an app with this state."""
    desk = Desk(state)

    def show(path: str, view: Callable[[Desk, Request], Response]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await run_in_threadpool(view, desk, request)

        return Route(path, _in_words(endpoint), name=f"page {path}", include_in_schema=False)

    def do(path: str, action: Action) -> Route:
        async def endpoint(request: Request) -> Response:
            async with request.form(max_files=1, max_fields=20) as form:
                refuse_unproven(request, form)
                tenant, _ = await run_in_threadpool(desk.stream, request, "admin")
                done = await run_in_threadpool(action, tenant, form)
            return go_to(f"/streams/{tenant.settings.name}{done.path}", done.sentence)

        return Route(path, _in_words(endpoint), methods=["POST"], name=f"do {path}", include_in_schema=False)

    async def try_it(request: Request) -> Response:
        return await tried(desk, request)

    at = "/streams/{name}"
    return [
        show("/", overview),
        show("/favicon.ico", lambda _, __: RedirectResponse("/static/favicon.svg", 301)),
        show("/login", show_login),
        Route("/login", _in_words(lambda request: log_in(desk, request)), methods=["POST"], include_in_schema=False),
        Route("/logout", _in_words(log_out), methods=["POST"], include_in_schema=False),
        show(at, learning),
        show(f"{at}/facts", facts),
        show(f"{at}/history", history),
        show(f"{at}/flips", flips),
        show(f"{at}/caches", caches),
        show(f"{at}/pictures/{{image}}", picture),
        show(f"{at}/snapshots", snapshots),
        show(f"{at}/snapshots/{{snapshot}}/file", snapshot_file),
        show(f"{at}/try", show_trial),
        Route(f"{at}/try", _in_words(try_it), methods=["POST"], include_in_schema=False),
        show(f"{at}/check", show_check),
        show(f"{at}/check/pictures/{{index}}", check_picture),
        *(do(f"{at}/{path}", action) for path, action in ACTIONS.items()),
        Mount("/static", _Static(directory=STATIC), name="static"),
    ]


def _in_words(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with what goes wrong as a page or a sentence."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except TrimtabError as error:
            return refusal(request, problem_of(error))

    return answered


class _Static(StaticFiles):
    """Files of the page. Their addresses name their version, so browsers may keep them."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        """A file."""
        answer = super().file_response(*given, **more)
        answer.headers["Cache-Control"] = FOREVER
        return answer


def overview(desk: Desk, request: Request) -> Response:
    """All streams."""
    wanted = request.query_params.get("wanted", "")[:64]
    names = desk.names(request)
    found = [name for name in names if wanted.lower() in name]
    pages = Pages.of(request, len(found), STREAMS, wanted=wanted)
    return page(
        request,
        "overview.html",
        streams=[desk.summary(name) for name in pages.cut(found, STREAMS)],
        total=len(names),
        wanted=wanted,
        pages=pages,
        here=f"/?{pages.query}page={pages.here}",
        origin=str(request.base_url).rstrip("/"),
        has_token=token_of(request) is not None,
    )


def learning(desk: Desk, request: Request) -> Response:
    """How a stream's learning goes."""
    tenant, role = desk.stream(request)
    health, past = tenant.health(), tenant.history()
    return page(
        request,
        "learning.html",
        stream=shown.stream(tenant, role),
        path="",
        tiles=shown.tiles(health, past),
        balance=shown.balance(past),
        alarms=alarms(health, past),
        refused=refused(health),
        events=past["events"][::-1][:EVENTS],
        recent=shown.images(tenant.recent(RECENT)),
    )


def facts(desk: Desk, request: Request) -> Response:
    """What the head of every other page says, when something has happened."""
    tenant, role = desk.stream(request)
    return page(request, "moved.html", stream=shown.stream(tenant, role), path="/facts")


def history(desk: Desk, request: Request) -> Response:
    """The series of the charts: as many points as there are bins, however long the stream is."""
    tenant, _ = desk.stream(request)
    return JSONResponse(shown.series(tenant.history()))


def flips(desk: Desk, request: Request) -> Response:
    """The answers that adapting has changed."""
    tenant, role = desk.stream(request)
    found = tenant.flips(10**6)
    pages = Pages.of(request, len(found), FLIPS)
    return page(
        request,
        "flips.html",
        stream=shown.stream(tenant, role),
        path="/flips",
        flips=shown.images(pages.cut(found, FLIPS)),
        pages=pages,
    )


def caches(desk: Desk, request: Request) -> Response:
    """What the caches hold, class by class."""
    tenant, role = desk.stream(request)
    labels, wanted = tenant.settings.labels, request.query_params.get("wanted", "")[:100]
    found = [label for label in labels if wanted.lower() in label.lower()]
    pages = Pages.of(request, len(found), CLASSES, wanted=wanted)
    groups = [tenant.cache(label)[0] for label in pages.cut(found, CLASSES)]
    return page(
        request,
        "caches.html",
        stream=shown.stream(tenant, role),
        path="/caches",
        groups=groups,
        coverage=tenant.health().get("coverage"),
        wanted=wanted,
        pages=pages,
    )


def picture(desk: Desk, request: Request) -> Response:
    """The small picture of an image; a sign that there is none, so that a page that is a little old stays whole."""
    tenant, _ = desk.stream(request, "admin")
    found = tenant.thumbnail(request.path_params["image"])
    if found is None:
        return Response(NO_PICTURE, media_type="image/svg+xml")
    return Response(found, media_type="image/jpeg", headers={"Cache-Control": A_DAY})


def snapshots(desk: Desk, request: Request) -> Response:
    """The states to go back to."""
    tenant, role = desk.stream(request)
    return page(request, "snapshots.html", stream=shown.stream(tenant, role), path="/snapshots")


def snapshot_file(desk: Desk, request: Request) -> Response:
    """A snapshot, to take away."""
    tenant, _ = desk.stream(request, "admin")
    name = request.path_params["snapshot"]
    content = tenant.snapshot_bytes(name)
    file = f"{tenant.settings.name}-{name}.safetensors"
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)
