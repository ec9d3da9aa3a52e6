"""Looks: what a stream holds and notices, for people, pages and monitors."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from trimtab.serve.problems import Problem
from trimtab.serve.routes.given import Stream, TheService, as_json, refusals
from trimtab.serve.schemas import CacheContents, Evicted, Images, Numbers
from trimtab.serve.sse import events_of
from trimtab.serve.tenant import Tenant

router = APIRouter(prefix="/v1/streams/{stream}", tags=["looks"])

Image = Annotated[str, Path(description="The image's id, from its answer.", max_length=128, examples=["1-42"])]
Limit = Annotated[int, Query(description="How many at most.", ge=1, le=1000)]
Label = Annotated[str | None, Query(description="Of one label only.", max_length=1000)]


@router.get("/cache", summary="What the caches hold", response_model=CacheContents, responses=refusals(404))
async def cache(service: TheService, stream: Stream, label: Label = None) -> Response:
    """Per label each item's id, cache, age in images and entropy."""
    return as_json({"labels": await service.on(stream, Tenant.cache, label)})


@router.delete("/cache/{image}", summary="Evict an image", response_model=Evicted, responses=refusals(404, 423, 507))
async def evict(service: TheService, stream: Stream, image: Image) -> Response:
    """Let go of what an image left in the caches."""
    return as_json({"items": await service.on(stream, Tenant.evict, image)})


@router.delete(
    "/sources/{source}", summary="Forget a source", response_model=Evicted, responses=refusals(404, 423, 507)
)
async def forget(
    service: TheService, stream: Stream, source: Annotated[str, Path(min_length=1, max_length=128)]
) -> Response:
    """Let go of everything that a source taught."""
    return as_json({"items": await service.on(stream, Tenant.forget, source)})


@router.get("/health", summary="What it notices of itself", response_model=Numbers, responses=refusals(404))
async def health(service: TheService, stream: Stream) -> Response:
    """Agreement, flips, drift and more over its last images, without labels."""
    return as_json(await service.on(stream, Tenant.health))


@router.get("/history", summary="Series along the stream", response_model=Numbers, responses=refusals(404))
async def history(service: TheService, stream: Stream) -> Response:
    """Bounded in length, however long the stream is."""
    return as_json(await service.on(stream, Tenant.history))


@router.get("/recent", summary="The last images", response_model=Images, responses=refusals(404))
async def recent(service: TheService, stream: Stream, limit: Limit = 50) -> Response:
    """The newest first."""
    return as_json({"images": await service.on(stream, Tenant.recent, limit)})


@router.get("/flips", summary="Answers that adapting changed", response_model=Images, responses=refusals(404))
async def flips(service: TheService, stream: Stream, limit: Limit = 50) -> Response:
    """The last images whose answer differs from zero-shot, the newest first."""
    return as_json({"images": await service.on(stream, Tenant.flips, limit)})


@router.get(
    "/events",
    summary="What happens, as it happens",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}, **refusals(404)},
)
async def events(request: Request, service: TheService, stream: Stream) -> Response:
    """Events step, flip, write, eviction, guard, snapshot, mode, correction; data is JSON."""
    access, token = request.app.state.access, request.state.token
    told = events_of(service, stream, lambda: access.role(token, stream) is not None)
    return StreamingResponse(told, media_type="text/event-stream")


@router.get(
    "/thumbnails/{image}",
    summary="A small picture",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG."}, **refusals(404)},
)
async def thumbnail(service: TheService, stream: Stream, image: Image) -> Response:
    """Where the stream keeps thumbnails, which it does not unless asked for."""
    found: bytes | None = await service.on(stream, Tenant.thumbnail, image)
    if found is None:
        raise Problem(HTTPStatus.NOT_FOUND, "There is no thumbnail of this image.")
    return Response(found, media_type="image/jpeg")


@router.delete("/thumbnails", summary="Delete all thumbnails", response_model=Evicted, responses=refusals(404))
async def drop_thumbnails(service: TheService, stream: Stream) -> Response:
    """What was learned stays."""
    found: Any = await service.on(stream, Tenant.drop_thumbnails)
    return as_json({"items": found})
