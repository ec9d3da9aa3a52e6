"""Parameters that a route does not know are refused: who mistypes `learn=false` would teach the stream."""

from http import HTTPStatus

from fastapi import Request
from fastapi.routing import APIRoute

from trimtab.serve.problems import Problem


async def refuse_unknown(request: Request) -> None:
    """Refuse a request whose address names a parameter that its route's description does not."""
    if not request.scope["query_string"]:
        return
    known = _known(request.scope["route"])
    for name in request.query_params:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{request.url.path} knows no parameter {name[:40]!r}; {takes}.",
            )


def _known(route: APIRoute) -> tuple[str, ...]:
    """What a route reads from its address: what FastAPI reads for it, and what it reads itself and describes."""
    described = (route.openapi_extra or {}).get("parameters", ())
    return (
        *(field.alias for field in route.dependant.query_params),
        *(each["name"] for each in described if each["in"] == "query"),
    )
