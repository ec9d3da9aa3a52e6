"""Streams: make, list, look at, switch and delete them."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from trimtab.serve.bodies import json_object
from trimtab.serve.routes.given import Stream, TheService, as_json, refusals
from trimtab.serve.schemas import Correction, Feedback, StreamInfo, StreamList
from trimtab.serve.settings import StreamSettings
from trimtab.serve.tenant import Tenant

router = APIRouter(prefix="/v1/streams", tags=["streams"])

SETTINGS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": TypeAdapter(StreamSettings).json_schema(),
                "example": {"name": "frogs", "labels": ["frog", "toad", "newt"], "encoder": "lite", "method": "mcp"},
            }
        },
    }
}


@router.get("", summary="The streams", response_model=StreamList, responses=refusals())
async def list_streams(request: Request, service: TheService) -> Response:
    """The names of all streams that this token may look at."""
    names = await service.in_thread(service.hub.names)
    access, token = request.app.state.access, request.state.token
    return as_json({"streams": [name for name in names if access.role(token, name) is not None]})


@router.post(
    "",
    summary="Make a stream",
    status_code=HTTPStatus.CREATED,
    response_model=StreamInfo,
    responses={200: {"model": StreamInfo, "description": "It is there already, as asked for."}, **refusals(409, 507)},
    openapi_extra=SETTINGS,
)
async def make_stream(request: Request, service: TheService) -> Response:
    """Labels, encoder, method and views are settled for good. Asking again for the same stream changes nothing."""
    tenant, is_new = await service.create(json_object(await request.body()))
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return as_json(await service.in_thread(about, tenant), status)


@router.get("/{stream}", summary="A stream", response_model=StreamInfo, responses=refusals(404))
async def look_at_stream(service: TheService, stream: Stream) -> Response:
    """What it was made with, and how it is."""
    return as_json(await service.on(stream, about))


@router.delete("/{stream}", summary="Delete a stream", status_code=HTTPStatus.NO_CONTENT, responses=refusals(404))
async def delete_stream(service: TheService, stream: Stream) -> Response:
    """The stream and all that it has learned, its snapshots included."""
    await service.delete(stream)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/{stream}/freeze", summary="Learn nothing", response_model=StreamInfo, responses=refusals(404, 507))
async def freeze(service: TheService, stream: Stream) -> Response:
    """Answer as before, but learn nothing until it is resumed."""
    return await _switched(service, stream, Tenant.freeze)


@router.post("/{stream}/resume", summary="Learn again", response_model=StreamInfo, responses=refusals(404, 507))
async def resume(service: TheService, stream: Stream) -> Response:
    """Undo a freeze."""
    return await _switched(service, stream, Tenant.resume)


@router.post("/{stream}/reset", summary="Forget everything", response_model=StreamInfo, responses=refusals(404, 507))
async def reset(service: TheService, stream: Stream) -> Response:
    """Forget everything learned; a snapshot of it is kept."""
    return await _switched(service, stream, Tenant.reset)


@router.post(
    "/{stream}/feedback", summary="Correct an answer", response_model=Correction, responses=refusals(404, 423, 507)
)
async def feedback(service: TheService, stream: Stream, given: Feedback) -> Response:
    """Somebody knows what a picture shows: what it left in the caches moves to that label, and stays there."""
    found = await service.on(stream, Tenant.feedback, given.id, given.label)
    return as_json(vars(found))


async def _switched(service: TheService, stream: str, switch: Any) -> Response:
    await service.on(stream, switch)
    return as_json(await service.on(stream, about))


def about(tenant: Tenant) -> dict[str, Any]:
    """What is known of a stream (`schemas.StreamInfo`)."""
    settings, mode = tenant.settings, tenant.mode
    snapshots = tenant.snapshots()
    summary = tenant.summary()
    return {
        "name": settings.name,
        "mode": mode,
        "seen": summary["seen"],
        "version": summary["version"],
        "agreement": summary["agreement"],
        "labels": list(settings.labels),
        "encoder": settings.encoder,
        "method": settings.method,
        "fingerprint": tenant.fingerprint,
        "settings": settings.to_dict(),
        "last_snapshot": snapshots[0].name if snapshots else None,
    }
