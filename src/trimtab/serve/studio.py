"""Studio: the Label Studio whose pictures a server may fetch."""

import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

from trimtab.errors import TrimtabError
from trimtab.serve.problems import Problem

SECONDS = 20.0


@dataclass(frozen=True)
class Studio:
    """Its address, and a token of it; without an address nothing is fetched from anywhere."""

    url: str = ""
    token: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or (self.url and urlsplit(self.url).scheme not in ("http", "https")):
            raise TrimtabError(
                f"Label Studio's url must be an address such as http://localhost:8080, not {self.url!r}."
            )
        if not isinstance(self.token, str):
            raise TrimtabError("Label Studio's token must be text.")

    def picture(self, address: str, most: int) -> bytes:
        """The picture at an address of this Label Studio, and of no other machine."""
        full = urljoin(self.url, address) if self.url else address
        if not self.url or _site(self.url) != _site(full):
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "Pictures are fetched only from the Label Studio that the configuration names ([label_studio] url), "
                f"not from {address[:60]!r}.",
            )
        request = urllib.request.Request(full, headers={"Authorization": f"Token {self.token}"} if self.token else {})
        try:
            with urllib.request.build_opener(_NoRedirects()).open(request, timeout=SECONDS) as answer:
                content: bytes = answer.read(most + 1)
        except (OSError, ValueError) as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"Label Studio did not give the picture: {error}.") from None
        if len(content) > most:
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The picture that Label Studio gave is too large.")
        return content


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to another machine."""

    def redirect_request(self, req: Any, fp: Any, code: int, *others: Any) -> None:
        del others
        raise urllib.error.HTTPError(req.full_url, code, "it was moved to another address", req.headers, fp)


def _site(address: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return parts.scheme, parts.netloc
