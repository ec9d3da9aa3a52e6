"""Log in and out: the token becomes a cookie that scripts cannot read and other sites cannot use."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from trimtab.serve.access import COOKIE
from trimtab.serve.page.desk import Desk
from trimtab.serve.page.pages import go_to, page
from trimtab.serve.page.safety import local_path, refuse_unproven

LONGEST = 1024


def show_login(desk: Desk, request: Request) -> Response:
    """The form."""
    if desk.access.is_open:
        return go_to("/")
    return page(request, "login.html", next=local_path(request.query_params.get("next")), refused="")


async def log_in(desk: Desk, request: Request) -> Response:
    """Keep a token that the server knows."""
    async with request.form(max_files=0, max_fields=10) as form:
        refuse_unproven(request, form)
        token, wanted = form.get("token"), form.get("next")
    path = local_path(wanted if isinstance(wanted, str) else None)
    if not isinstance(token, str) or len(token) > LONGEST or desk.access.who(token.strip()) is None:
        refused = "This server does not know that token."
        return page(request, "login.html", HTTPStatus.UNAUTHORIZED, next=path, refused=refused)
    answer = go_to(path)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token.strip(), httponly=True, samesite="strict", secure=secure)
    return answer


async def log_out(request: Request) -> Response:
    """Forget the token."""
    async with request.form(max_files=0, max_fields=10) as form:
        refuse_unproven(request, form)
    answer = go_to("/login")
    answer.delete_cookie(COOKIE)
    return answer
