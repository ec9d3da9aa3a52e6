"""Pages: templates made into answers, with what every page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from math import ceil
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

import trimtab
from trimtab.serve.page.safety import FIELD, LoginNeeded, local_path, proof_for, token_of
from trimtab.serve.page.words import FILTERS
from trimtab.serve.problems import Problem

TABS: Final = (
    ("Learning", ""),
    ("Flips", "/flips"),
    ("Caches", "/caches"),
    ("Snapshots", "/snapshots"),
    ("Try it", "/try"),
    ("Check 50", "/check"),
)
STATIC: Final = Path(__file__).parent / "static"
SAID: Final = "trimtab_said"  # a cookie for one sentence, from an action to the page after it
TITLES = {404: "Not here", 403: "Refused", 413: "Too large", 429: "Too fast", 503: "Not now", 507: "The disk is full"}


@dataclass(frozen=True)
class Pages:
    """Which part of a long list is shown."""

    here: int
    count: int
    total: int
    query: str = ""  # the rest of the address, with its &

    @classmethod
    def of(cls, request: Request, total: int, per_page: int, **kept: str) -> "Pages":
        """The page that a request asks for, or the nearest there is."""
        count, wanted = max(1, ceil(total / per_page)), request.query_params.get("page", "1")
        here = min(count, max(1, int(wanted))) if wanted.isdecimal() and len(wanted) < 10 else 1
        query = "".join(f"{name}={quote(value)}&" for name, value in kept.items() if value)
        return cls(here, count, total, query)

    def cut(self, rows: Sequence[Any], per_page: int) -> Sequence[Any]:
        """The rows of this page."""
        return rows[(self.here - 1) * per_page : self.here * per_page]


def acts(path: str, part: str = "#body") -> Markup:
    """The attributes of a form that posts; with scripts on, only a part of the page that follows is taken."""
    return Markup(
        'method="post" action="{0}" hx-post="{0}" hx-target="{1}" hx-select="{1}" hx-swap="outerHTML" '
        'hx-select-oob="#notice:innerHTML"'
    ).format(path, part)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("trimtab.serve.page"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals |= {"version": trimtab.__version__, "acts": acts, "tabs": TABS}
    return environment


def page(request: Request, template: str, status: int = HTTPStatus.OK, **shown: Any) -> Response:
    """A page. A sentence that an action left behind is shown once."""
    said = request.cookies.get(SAID)

    def guarded() -> Markup:
        return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, proof_for(request))

    text = (
        _templates()
        .get_template(template)
        .render(guarded=guarded, logged_in=token_of(request) is not None, notice=unquote(said) if said else "", **shown)
    )
    answer = HTMLResponse(text, status, headers={"Cache-Control": "no-store"})
    if said:
        answer.delete_cookie(SAID)
    return answer


def go_to(path: str, sentence: str = "") -> Response:
    """On to another page, with a sentence to show there."""
    answer = RedirectResponse(path, HTTPStatus.SEE_OTHER)
    if sentence:
        answer.set_cookie(SAID, quote(sentence), max_age=30, httponly=True, samesite="strict")
    return answer


def refusal(request: Request, problem: Problem) -> Response:
    """What went wrong: a sentence for a script, a page for a reader, the login for whoever needs it."""
    if "hx-request" in request.headers or request.method == "HEAD":
        return PlainTextResponse(str(problem), problem.status, headers=problem.headers)
    if isinstance(problem, LoginNeeded):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return go_to(f"/login?next={quote(local_path(here) if request.method == 'GET' else '/')}")
    title = TITLES.get(int(problem.status), "That did not work")
    answer = page(request, "error.html", problem.status, title=title, text=str(problem))
    answer.headers.update(problem.headers)
    return answer
