"""Problems: what goes wrong with a request, as one sentence of JSON with the right status."""

import errno
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from trimtab.errors import TrimtabError
from trimtab.serve import refusals


class Problem(TrimtabError):
    """A request that is not answered: one sentence, and the status that goes with it."""

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None, challenge: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)
        if challenge:
            self.headers["WWW-Authenticate"] = 'Bearer realm="trimtab"'


class Busy(Problem):
    """More is asked for than can be done now."""

    def __init__(self, sentence: str, *, retry_after: int) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, sentence, retry_after=retry_after)


STATUS: Final[Mapping[type[TrimtabError], int]] = MappingProxyType(
    {
        refusals.NoSuchStream: HTTPStatus.NOT_FOUND,
        refusals.NoSuchImage: HTTPStatus.NOT_FOUND,
        refusals.NoSuchSnapshot: HTTPStatus.NOT_FOUND,
        refusals.StreamExists: HTTPStatus.CONFLICT,
        refusals.KeyReused: HTTPStatus.CONFLICT,
        refusals.Frozen: HTTPStatus.LOCKED,
        refusals.DiskFull: HTTPStatus.INSUFFICIENT_STORAGE,
        refusals.Damaged: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


def problem_of(error: TrimtabError) -> Problem:
    """What an error of a room below means to a client; one that names no status is about what was sent."""
    if isinstance(error, Problem):
        return error
    status = next((found for kind, found in STATUS.items() if isinstance(error, kind)), HTTPStatus.UNPROCESSABLE_ENTITY)
    return Problem(status, str(error))


def of_the_system(error: OSError) -> Problem:
    """What a disk or another part of the machine refused; its log says where."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    status = HTTPStatus.INSUFFICIENT_STORAGE if full else HTTPStatus.SERVICE_UNAVAILABLE
    return Problem(status, f"The server's machine refused: {error.strerror or type(error).__name__}.", retry_after=30)


def as_json(problem: Problem, request_id: str) -> dict[str, Any]:
    """The body of such an answer."""
    return {"error": str(problem), "status": int(problem.status), "request_id": request_id}
