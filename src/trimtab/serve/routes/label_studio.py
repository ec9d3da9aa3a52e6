"""Label Studio's four routes, one backend per stream: connect Label Studio to http://HOST:PORT/label-studio/STREAM.

Predictions are given without learning, because an annotator may look at a task many times; what an annotator says comes
back through the webhook, is learned once, and corrects the stream. Label Studio sends pictures as addresses. Only those
of the Label Studio that the operator has named are fetched, so that nobody can send this server to other machines.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response

from trimtab.serve.bodies import from_base64, json_object
from trimtab.serve.limits import MEGABYTE
from trimtab.serve.problems import Problem
from trimtab.serve.records import Answer
from trimtab.serve.routes.given import Stream, TheService, as_json, refusals
from trimtab.serve.schemas import Numbers
from trimtab.serve.studio import Studio
from trimtab.serve.tenant import Tenant

router = APIRouter(prefix="/label-studio/{stream}", tags=["Label Studio"])

MOST_TASKS = 64
OBJECT: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
}


@router.get("/health", summary="Is the backend there?", response_model=Numbers, responses=refusals(404))
async def health(service: TheService, stream: Stream) -> Response:
    """What Label Studio asks first."""
    service.hub.get(stream)
    return as_json({"status": "UP", "model_class": "trimtab"})


@router.post(
    "/setup", summary="A project is connected", response_model=Numbers, responses=refusals(404), openapi_extra=OBJECT
)
async def setup(service: TheService, stream: Stream) -> Response:
    """The project's labels must be the stream's own; that is found out when answers are compared."""
    return as_json({"model_version": await _version(service, stream)})


@router.post(
    "/predict", summary="Suggest labels", response_model=Numbers, responses=refusals(404), openapi_extra=OBJECT
)
async def predict(request: Request, service: TheService, stream: Stream) -> Response:
    """A suggestion for each task; nothing is learned."""
    tasks = json_object(await request.body()).get("tasks")
    if not isinstance(tasks, list) or not 1 <= len(tasks) <= MOST_TASKS:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"'tasks' must be a list of 1 to {MOST_TASKS} tasks.")
    pictures = await asyncio.gather(*(_picture(request, service, task) for task in tasks))
    answers = await service.classify(stream, pictures, learn=False)
    version = await _version(service, stream)
    return as_json({"results": [_suggestion(answer, version) for answer in answers]})


@router.post(
    "/webhook",
    summary="An annotator has said",
    response_model=Numbers,
    responses=refusals(404, 423, 507),
    openapi_extra=OBJECT,
)
async def webhook(request: Request, service: TheService, stream: Stream) -> Response:
    """The picture is learned, once per task, and the annotator's label corrects what the stream said of it."""
    content = json_object(await request.body())
    if content.get("action") not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
        return as_json({"status": "ignored"})
    task, label = content.get("task"), _chosen(content.get("annotation"))
    if label is None:
        return as_json({"status": "ignored"})
    labels = service.hub.get(stream).settings.labels
    if label not in labels:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{label!r} is none of the labels of the stream {stream!r}.")
    picture = await _picture(request, service, task)
    number = task.get("id") if isinstance(task, Mapping) else None
    (answer,) = await service.classify(stream, [picture], key=None if number is None else f"label-studio-{number}")
    if not answer.durable:
        raise Problem(HTTPStatus.LOCKED, f"It was not learned: {answer.why_not}")
    found = await service.on(stream, Tenant.feedback, answer.id, label)
    return as_json({"status": "corrected", "id": answer.id, "label": label, "placed": found.placed})


async def _version(service: TheService, stream: str) -> str:
    summary = await service.on(stream, Tenant.summary)
    return f"{stream}-{summary['version'] or 0}"


async def _picture(request: Request, service: TheService, task: Any) -> bytes:
    """The first address in a task's data that is a picture's."""
    data = task.get("data") if isinstance(task, Mapping) else None
    values = data.values() if isinstance(data, Mapping) else ()
    address = next((each for each in values if isinstance(each, str) and each), None)
    if address is None:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "A task needs 'data' with the address of a picture.")
    if address.startswith("data:"):
        return from_base64(address)
    studio: Studio = request.app.state.studio
    return await service.in_thread(studio.picture, address, service.limits.body_megabytes * MEGABYTE)


def _suggestion(answer: Answer, version: str) -> dict[str, Any]:
    choice = {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": [answer.label]}}
    return {"result": [choice], "score": answer.clearness, "model_version": version}


def _chosen(annotation: Any) -> str | None:
    """The one label that an annotation chooses; None if it chooses none."""
    results = annotation.get("result") if isinstance(annotation, Mapping) else None
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, Mapping) else None
        choices = value.get("choices") if isinstance(value, Mapping) else None
        if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], str):
            return choices[0]
    return None
