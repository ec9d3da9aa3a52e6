"""Doors: which role each address of the interface asks for, and what a request gives to be let in.

What is not named here asks for an admin, so a route that somebody forgets is closed, not open. The page's own addresses
are not of the interface; the page asks for itself.
"""

import base64
import binascii
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from trimtab.serve.access import COOKIE, Access, Role, is_loopback
from trimtab.serve.problems import Problem

INTERFACE: Final = ("v1", "v2", "predictions", "label-studio", "metrics", "openapi.json")
PUBLIC: Final = (("openapi.json",), ("v2", "health", "live"), ("v2", "health", "ready"))
LOOKS: Final = ("history", "health", "cache", "events", "flips", "recent")  # figures and ids, no pictures or features
SAFE: Final = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Door:
    """What an address asks for: a role on a stream (None: on the server), or any token that is known."""

    role: Role
    stream: str | None = None
    any_token: bool = False


def door_of(method: str, path: str) -> Door | None:
    """The door before an address; None where everybody may pass."""
    parts = tuple(path.split("/")[1:])
    if parts[0] not in INTERFACE or parts in PUBLIC:
        return None
    look = method in SAFE
    match parts:
        case ("v1", "streams") | ("v2",) if look:
            return Door("classify", any_token=True)
        case ("metrics",):
            return Door("classify")
        case ("v1", "streams", stream) | ("v2", "models", stream) | ("v2", "models", stream, "ready") if look:
            return Door("classify", stream)
        case ("v1", "streams", stream, place) if look and place in LOOKS:
            return Door("classify", stream)
        case ("v1", "streams", stream, "classify" | "features") | ("predictions", stream):
            return Door("classify", stream)
        case ("label-studio", stream, "health" | "setup" | "predict"):
            return Door("classify", stream)
        case ("v1", "streams", stream, *_) | ("label-studio", stream, *_):
            return Door("admin", stream)
    return Door("admin")


def given_token(request: HTTPConnection, method: str) -> str | None:
    """The token of a request: a bearer's, a key's or a password's; of a browser's cookie only to look at something.

    A browser sends cookies along with whatever another site makes it send; the page's own forms have their own check.
    """
    scheme, _, word = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return word.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(word, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    key = request.headers.get("x-api-key")
    if key is not None:
        return key
    return request.cookies.get(COOKIE) if method in SAFE else None


def refuse_strangers(access: Access, door: Door, token: str | None) -> None:
    """Let whoever may pass, pass."""
    if access.is_open:
        return
    known = access.who(token)
    if known is None:
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "This needs a token: send the header 'Authorization: Bearer TOKEN'."
            if not token
            else "This token is not known here.",
            challenge=True,
        )
    role = known.role_for(door.stream)
    if door.any_token or role == "admin" or role == door.role:
        return
    what = "this" if door.stream is None else f"the stream {door.stream!r}"
    raise Problem(HTTPStatus.FORBIDDEN, f"This token does not allow {door.role!r} on {what}.")


def refuse_other_sites(request: HTTPConnection, method: str, *, own_machine: bool) -> None:
    """Refuse what other web sites make a visitor's browser send.

    A browser may post to any address without asking. And where no token is needed, a site could give its own name the
    address of this machine, so such a server answers under the machine's own names only (`own_machine`).
    """
    host = request.headers.get("host", "")
    if own_machine and not is_loopback(_host_name(host)):
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "Without tokens this server answers to localhost and 127.0.0.1 only; start it with tokens for other names.",
        )
    if method in SAFE:
        return
    origin = request.headers.get("origin")
    foreign = origin is not None and _authority(origin) != host.lower()
    if foreign or request.headers.get("sec-fetch-site") == "cross-site":
        raise Problem(HTTPStatus.FORBIDDEN, "Requests that another web site makes a browser send are refused.")


def _host_name(host: str) -> str:
    return host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0].lower()


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
