"""Pictures or features in, answers out."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response

from trimtab.serve.bodies import Pictures, pictures_of, rows_of
from trimtab.serve.problems import Problem
from trimtab.serve.routes.asked import KEY, LEARN, PARAMETERS, TOP_OF_ALL, Asked
from trimtab.serve.routes.given import Stream, TheService, answered, as_json, refusals
from trimtab.serve.schemas import Answers, Guess, HuggingFaceRequest

router = APIRouter(tags=["classify"])

BINARY = {"schema": {"type": "string", "format": "binary"}}
PICTURES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": BINARY,
            "application/octet-stream": BINARY,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"images": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                    "required": ["images"],
                }
            },
            "application/json": {"schema": HuggingFaceRequest.model_json_schema()},
        },
    }
}
ROWS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A .npy file, or a safetensors file with `features`: (d), (images, d) or (images, views, d).",
        "content": {"application/octet-stream": BINARY},
    }
}


@router.post(
    "/v1/streams/{stream}/classify",
    summary="Say what pictures show, and learn from them",
    response_model=Answers,
    responses=refusals(404, 409),
    openapi_extra={**PICTURES, "parameters": PARAMETERS},
)
async def classify(request: Request, service: TheService, stream: Stream) -> Response:
    """An image's bytes, several in multipart/form-data, or base64 in JSON. If one cannot be read, none is learned."""
    asked = Asked.of(request)
    given = await pictures_of(request, service.limits.pictures_per_request)
    labels, top = _labels(service, stream, given), _top(given, asked.top)
    answers = await service.classify(stream, given.files, learn=asked.learn, key=asked.key, source=asked.source)
    return as_json({"stream": stream, "answers": [answered(each, labels, top, asked.explain) for each in answers]})


@router.post(
    "/v1/streams/{stream}/features",
    summary="The same for features that you have encoded",
    response_model=Answers,
    responses=refusals(404, 409),
    openapi_extra={**ROWS, "parameters": PARAMETERS},
)
async def features(request: Request, service: TheService, stream: Stream) -> Response:
    """Rows of the stream's own encoder, as numbers; files that hold Python objects are refused."""
    asked = Asked.of(request)
    rows = rows_of(await request.body(), service.limits.pictures_per_request)
    labels = service.hub.get(stream).settings.labels
    answers = await service.classify_rows(stream, rows, learn=asked.learn, key=asked.key, source=asked.source)
    return as_json(
        {"stream": stream, "answers": [answered(each, labels, asked.top, asked.explain) for each in answers]}
    )


@router.post(
    "/predictions/{stream}",
    summary="The same in Hugging Face's shape",
    response_model=list[Guess] | list[list[Guess]],
    responses=refusals(404, 409),
    openapi_extra={**PICTURES, "parameters": [LEARN, TOP_OF_ALL, KEY]},
)
async def predictions(request: Request, service: TheService, stream: Stream) -> Response:
    """Every label with its score, best first, as Hugging Face's pipelines answer; ids are in X-Trimtab-Ids."""
    given = await pictures_of(request, service.limits.pictures_per_request)
    labels = _labels(service, stream, given)
    asked = Asked.of(request, top=len(labels))
    answers = await service.classify(stream, given.files, learn=asked.learn, key=asked.key)
    found = [answered(each, labels, _top(given, asked.top), False)["predictions"] for each in answers]
    headers = {
        "X-Trimtab-Ids": ",".join(each.id for each in answers),
        "X-Trimtab-Seen": str(answers[-1].seen),
        "X-Trimtab-Zero-Shot": ",".join(str(labels.index(each.zero_shot.label)) for each in answers),
    }
    return as_json(found if given.several else found[0], headers=headers)


def _labels(service: TheService, stream: str, given: Pictures) -> tuple[str, ...]:
    """The stream's labels; candidates that a client names must be the same, for only their texts are known."""
    labels = service.hub.get(stream).settings.labels
    named = given.parameters.get("candidate_labels")
    if named is None:
        return labels
    if not isinstance(named, list) or any(not isinstance(each, str) for each in named) or set(named) != set(labels):
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"The stream {stream!r} knows its own labels ({', '.join(labels[:5])}{', ...' * (len(labels) > 5)}); "
            "leave out candidate_labels, or make a stream with these.",
        )
    return labels


def _top(given: Pictures, otherwise: int) -> int:
    top = given.parameters.get("top_k", otherwise)
    if top is None:
        return otherwise
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "top_k must be a whole number of at least 1.")
    return top
