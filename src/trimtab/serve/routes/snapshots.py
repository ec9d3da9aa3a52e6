"""Snapshots and states: what a stream has learned, to keep, to go back to, to carry elsewhere."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from trimtab.serve.routes.given import Stream, TheService, as_json, refusals
from trimtab.serve.routes.streams import about
from trimtab.serve.schemas import Note, SnapshotInfo, SnapshotList, StreamInfo
from trimtab.serve.tenant import Tenant

router = APIRouter(prefix="/v1/streams/{stream}", tags=["snapshots"])

Snapshot = Annotated[str, Path(description="The snapshot's name.", max_length=64, examples=["000000001000"])]
BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": BINARY, "description": "A safetensors file, as `Stream.load` and `Classifier.load` read it."}
}


@router.get("/snapshots", summary="The snapshots", response_model=SnapshotList, responses=refusals(404))
async def list_snapshots(service: TheService, stream: Stream) -> Response:
    """The newest first."""
    found = await service.on(stream, Tenant.snapshots)
    return as_json({"snapshots": [asdict(each) for each in found]})


@router.post(
    "/snapshots",
    summary="Take a snapshot",
    status_code=HTTPStatus.CREATED,
    response_model=SnapshotInfo,
    responses=refusals(404, 507),
)
async def take_snapshot(service: TheService, stream: Stream, given: Note | None = None) -> Response:
    """Keep the state as it is until somebody deletes it."""
    found = await service.on(stream, Tenant.take_snapshot, given.note if given else "")
    return as_json(asdict(found), HTTPStatus.CREATED)


@router.get(
    "/snapshots/{snapshot}",
    summary="Download a snapshot",
    response_class=Response,
    responses={**FILE, **refusals(404)},
)
async def download_snapshot(service: TheService, stream: Stream, snapshot: Snapshot) -> Response:
    """Its file."""
    return _file(await service.on(stream, Tenant.snapshot_bytes, snapshot), f"{stream}-{snapshot}")


@router.post(
    "/snapshots/{snapshot}/restore", summary="Go back", response_model=StreamInfo, responses=refusals(404, 423, 507)
)
async def restore_snapshot(service: TheService, stream: Stream, snapshot: Snapshot) -> Response:
    """Continue from a snapshot; what is known now is kept as another."""
    await service.on(stream, Tenant.restore, snapshot)
    return as_json(await service.on(stream, about))


@router.delete(
    "/snapshots/{snapshot}",
    summary="Delete a snapshot",
    status_code=HTTPStatus.NO_CONTENT,
    responses=refusals(404),
)
async def delete_snapshot(service: TheService, stream: Stream, snapshot: Snapshot) -> Response:
    """Let go of it."""
    await service.on(stream, Tenant.delete_snapshot, snapshot)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/state", summary="Download the state", response_class=Response, responses={**FILE, **refusals(404)})
async def download_state(service: TheService, stream: Stream) -> Response:
    """What was learned so far."""
    return _file(await service.on(stream, Tenant.state_bytes), f"{stream}-state")


@router.put(
    "/state",
    summary="Upload a state",
    response_model=StreamInfo,
    responses=refusals(404, 423, 507),
    openapi_extra={"requestBody": {"required": True, "content": BINARY}},
)
async def upload_state(request: Request, service: TheService, stream: Stream) -> Response:
    """Continue from a state of the same labels, texts and method; what is known now is kept as a snapshot."""
    await service.on(stream, Tenant.put_state, await request.body())
    return as_json(await service.on(stream, about))


def _file(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}.safetensors"'}
    return Response(content, headers=headers, media_type="application/octet-stream")
