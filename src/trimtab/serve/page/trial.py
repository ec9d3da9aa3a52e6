"""The page to try an image: what the stream says of it, and zero-shot beside it."""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from trimtab.errors import TrimtabError
from trimtab.serve.page import shown
from trimtab.serve.page.desk import Desk
from trimtab.serve.page.pages import page
from trimtab.serve.page.safety import refuse_unproven


def show_trial(desk: Desk, request: Request) -> Response:
    """The page before an image is tried."""
    tenant, role = desk.stream(request)
    return page(request, "try.html", stream=shown.stream(tenant, role), path="/try", answer=None)


async def tried(desk: Desk, request: Request) -> Response:
    """The page with an answer."""
    async with request.form(max_files=1, max_fields=20) as form:
        refuse_unproven(request, form)
        tenant, role = await run_in_threadpool(desk.stream, request)
        image, learn = form.get("image"), form.get("learn") == "yes"
        if not isinstance(image, UploadFile) or not image.size:
            raise TrimtabError("There is no image in the form; choose one.")
        content = await image.read()
    (found,) = await desk.service.classify(tenant.settings.name, [content], learn=learn, source="page")
    answer = shown.answer(found, tenant.settings.labels, learn=learn)
    stream = await run_in_threadpool(shown.stream, tenant, role)
    return page(request, "try.html", stream=stream, path="/try", answer=answer)
