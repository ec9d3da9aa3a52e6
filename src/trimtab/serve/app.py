"""The app: routes behind the front, around a service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import trimtab
from trimtab.errors import TrimtabError
from trimtab.serve.access import Access
from trimtab.serve.express import Express
from trimtab.serve.front import Front
from trimtab.serve.hub import Hub
from trimtab.serve.limits import MEGABYTE, HeldBytes, Limits
from trimtab.serve.metrics import Metrics
from trimtab.serve.pool import EncoderPool
from trimtab.serve.problems import Problem, as_json, problem_of
from trimtab.serve.routes import classify, given, label_studio, looks, server, snapshots, streams
from trimtab.serve.routes.parameters import refuse_unknown
from trimtab.serve.service import Service
from trimtab.serve.studio import Studio

ABOUT = """A zero-shot image classifier that adapts to the pictures it is sent. Every answer carries what the frozen
model says (`zero_shot`), an `id` for a later correction, and how many images were `seen`."""


def make_app(
    hub: Hub,
    encoders: EncoderPool,
    *,
    access: Access | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    studio: Studio | None = None,
    page: bool = True,
) -> FastAPI:
    """The whole interface, and the page. The app owns the hub and the encoders, and closes them when it ends."""
    access, limits, metrics = access or Access(), limits or Limits(), metrics or Metrics()
    held = HeldBytes(limits.held_megabytes * MEGABYTE)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        await app.state.service.close()

    app = FastAPI(
        title="trimtab",
        version=trimtab.__version__,
        description=ABOUT,
        docs_url=None,  # its pages load scripts from other hosts
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    app.state.service = Service(hub, encoders, limits, metrics, held)
    app.state.hub, app.state.access, app.state.limits = hub, access, limits
    app.state.studio = studio or Studio()
    for subject in (classify, server, streams, looks, snapshots, label_studio):
        app.include_router(subject.router, dependencies=[Depends(refuse_unknown)])
    app.add_exception_handler(TrimtabError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_middleware(Express, service=app.state.service)
    app.add_middleware(Front, access=access, limits=limits, metrics=metrics, held=held, own_machine=access.is_open)
    if page:
        from trimtab.serve.page import add_page

        add_page(app)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    problem = _problem(request, error)
    return given.as_json(as_json(problem, request.state.request_id), problem.status, problem.headers)


def _problem(request: Request, error: Exception) -> Problem:
    if isinstance(error, TrimtabError):
        return problem_of(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body", "header"))
        said = str(first["msg"]).removeprefix("Value error, ")
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where or 'The body'} cannot be used: {said}.")
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(
            HTTPStatus.NOT_FOUND, f"There is nothing at {request.url.path}; see /openapi.json for what there is."
        )
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        problem = Problem(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not known at {request.url.path}.")
        problem.headers["Allow"] = allowed
        return problem
    return Problem(error.status_code, f"{str(error.detail).rstrip('.')}.")
