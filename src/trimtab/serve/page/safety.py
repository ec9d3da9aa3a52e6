"""Safety: who is asking, and that a form was sent by a page of this server.

Other sites' requests, foreign host names and floods of wrong tokens are refused before any route (`serve.front`). What
is left for the page: its cookie, and a proof in every form that only a page of this server can have shown.
"""

import hashlib
import hmac
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request

from trimtab.serve.access import COOKIE, Access, Role
from trimtab.serve.problems import Problem
from trimtab.serve.refusals import NoSuchStream

FIELD: Final = "proof"  # the hidden field of every form
SECRET: Final = "page_secret"  # in the app's state: pages from before a restart are asked to load again


class LoginNeeded(Problem):
    """The server has tokens, and none that it knows was given."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.UNAUTHORIZED, "Log in first.")


def token_of(request: Request) -> str | None:
    """The token that the browser keeps."""
    return request.cookies.get(COOKIE)


def proof_for(request: Request) -> str:
    """What a page of this server shows, and other sites cannot read."""
    secret: bytes = getattr(request.app.state, SECRET)
    return hmac.new(secret, hashlib.sha256((token_of(request) or "").encode()).digest(), "sha256").hexdigest()


def refuse_unproven(request: Request, form: Mapping[str, Any]) -> None:
    """Raise unless a form comes from a page of this server, shown to whoever sends it."""
    given = form.get(FIELD)
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), proof_for(request).encode()):
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "This page is from before the server or your login changed; load it again, then repeat.",
        )


def role_on(request: Request, access: Access, stream: str) -> Role:
    """What whoever asks may do with a stream. One that they may not see is one that is not there."""
    refuse_unknown(request, access)
    role = access.role(token_of(request), stream)
    if role is None:
        raise NoSuchStream(f"There is no stream {stream!r}.")
    return role


def refuse_unknown(request: Request, access: Access) -> None:
    """Raise unless the server is open, or the browser has a token that it knows."""
    if not access.is_open and access.who(token_of(request)) is None:
        raise LoginNeeded


def local_path(wanted: str | None) -> str:
    """A path of this server to go to after the login, and nowhere else."""
    plain = wanted or "/"
    good = plain.startswith("/") and not plain.startswith("//") and "\\" not in plain and plain.isprintable()
    return plain if good else "/"
