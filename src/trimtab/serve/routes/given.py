"""What every route is given, and what every answer may be: declared once."""

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Path, Request, Response

from trimtab.serve.records import Answer
from trimtab.serve.schemas import Refusal
from trimtab.serve.service import Service


async def service_of(request: Request) -> Service:  # async: FastAPI would run it in a thread otherwise
    """The service that the app was made with."""
    found: Service = request.app.state.service
    return found


TheService = Annotated[Service, Depends(service_of)]
Stream = Annotated[
    str, Path(description="The stream's name.", pattern="^[a-z0-9][a-z0-9_-]{0,63}$", examples=["frogs"], max_length=64)
]
# Why a request may be refused, by status; `refusals(404, 409)` is what a route may answer beside its own.
WHY = {
    400: "The body cannot be parsed.",
    401: "A token is needed.",
    403: "The token does not allow it.",
    404: "There is no such stream, image or snapshot.",
    408: "The body did not arrive in time.",
    409: "It exists already with other settings, or the key was used for another body.",
    413: "Too large, or too many pictures at once.",
    415: "A type of body that is not known here.",
    422: "What was sent cannot be used; the sentence says why.",
    423: "The stream is frozen or being restored.",
    429: "Too many requests; see Retry-After.",
    503: "Busy; see Retry-After.",
    507: "The disk is full.",
}
_strict = json.JSONEncoder(allow_nan=False).encode  # `json.dumps` would make one for each answer
EVERYWHERE = (400, 401, 403, 408, 413, 415, 422, 429, 503)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The part of a route's description that names its refusals."""
    return {status: {"model": Refusal, "description": WHY[status]} for status in sorted({*EVERYWHERE, *statuses})}


def as_json(content: Any, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    """An answer; written here, because checking it against its schema would take longer than making it."""
    try:
        text = _strict(content)
    except (TypeError, ValueError):
        text = json.dumps(_plain(content))
    return Response(text.encode(), status, headers, "application/json")


def _plain(content: Any) -> Any:
    """The same as JSON can hold it: NumPy's numbers as numbers, and null for what is none."""
    if isinstance(content, Mapping):
        return {str(name): _plain(each) for name, each in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(each) for each in content]
    if isinstance(content, np.generic | np.ndarray):
        return _plain(content.tolist())
    return None if isinstance(content, float) and not math.isfinite(content) else content


def answered(answer: Answer, labels: tuple[str, ...], top: int, explain: bool) -> dict[str, Any]:
    """An answer as the interface gives it (`schemas.Answered`)."""
    best = (-answer.probabilities).argsort(kind="stable")[:top]
    found: dict[str, Any] = {
        "id": answer.id,
        "label": answer.label,
        "score": answer.score,
        "predictions": [{"label": labels[c], "score": float(answer.probabilities[c])} for c in best.tolist()],
        "zero_shot": {"label": answer.zero_shot.label, "score": answer.zero_shot.score},
        "seen": answer.seen,
        "version": answer.version,
        "learned": answer.learned,
        "why_not": answer.why_not,
        "agree": answer.agree,
        "clearness": answer.clearness,
        "unknown": answer.unknown,
        "replayed": answer.replayed,
        "durable": answer.durable,
    }
    if explain:
        found["parts"] = {name: {"label": part.label, "score": part.score} for name, part in answer.parts.items()}
    return found
