"""The page of "check 50": draw, ask, tell."""

import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response

from trimtab.errors import TrimtabError
from trimtab.serve.page import shown
from trimtab.serve.page.check import SIZE, Candidate, Checks, Result, draw
from trimtab.serve.page.desk import Desk
from trimtab.serve.page.pages import page
from trimtab.serve.problems import Problem
from trimtab.serve.tenant import Tenant

FILE = "check.json"
KEYS = "1234567890abcdefghijklmopqrstvwxyz"  # of the classes; n and u are taken
MOST_CANDIDATES = 10**6

_open: WeakKeyDictionary[Tenant, Checks] = WeakKeyDictionary()
_lock = threading.RLock()


def checks_of(tenant: Tenant) -> Checks:
    """The checks of a stream."""
    with _lock:
        if tenant not in _open:
            _open[tenant] = Checks(tenant.folder / FILE, tenant.folder / "thumbnails")
        return _open[tenant]


def start(tenant: Tenant, _: Mapping[str, Any]) -> str:
    """Draw a sample."""
    checks = checks_of(tenant)
    with _lock:
        check = draw(_candidates(tenant), time.time(), secrets.randbits(64))
        checks.start(check, tenant.thumbnail)
        return f"{len(check.asked)} images were drawn."


def say(tenant: Tenant, form: Mapping[str, Any]) -> str:
    """Note a label, or the lack of one."""
    checks = checks_of(tenant)
    special, label, index = form.get("special"), form.get("label"), str(form.get("index", ""))
    with _lock:
        if checks.current is None:
            raise TrimtabError("There is no check under way; start one.")
        if special == "back":
            checks.current.step_back()
        elif special not in ("none", "unclear") and label not in tenant.settings.labels:
            raise TrimtabError(f"{label!r} is none of the stream's labels.")
        elif not index.isdecimal():
            raise TrimtabError("The form does not say which image it is about; load the page again.")
        else:
            checks.current.say(int(index), "" if special == "none" else str(label), unclear=special == "unclear")
        checks.save()
    return ""


def teach(tenant: Tenant, _: Mapping[str, Any]) -> str:
    """Give the stream the labels of a finished check as corrections."""
    checks = checks_of(tenant)
    with _lock:
        if checks.current is None or checks.current.next is not None:
            raise TrimtabError("The check is not finished; label all of its images first.")
        taught = 0
        for image, label in checks.current.labels():
            taught += tenant.feedback(image, label).placed
        checks.current.taught = True
        checks.save()
    return f"{taught} images stand for the classes you named now."


def drop(tenant: Tenant, _: Mapping[str, Any]) -> str:
    """Give up the check under way."""
    with _lock:
        checks_of(tenant).forget_pictures()
    return "The check was given up; its labels are gone."


def show_check(desk: Desk, request: Request) -> Response:
    """The image to label, or the result."""
    tenant, role = desk.stream(request)
    seen = shown.stream(tenant, role)
    asked = result = None
    past: list[Result] = []
    frame = 0
    if seen["pictures"]:
        checks = checks_of(tenant)
        past, current = checks.past, checks.current
        if current is not None and checks.picture(0) is None:  # somebody has deleted all pictures
            checks.forget_pictures()
            current = None
        if current is None:
            frame = len(_candidates(tenant))
        elif current.next is not None:
            asked = {"index": current.next, "number": current.next + 1, "of": len(current.asked)}
        elif (found := current.result()) is not None:
            result = _in_words(found) | {"teachable": 0 if current.taught else len(current.labels())}
    return page(
        request,
        "check.html",
        stream=seen,
        path="/check",
        asked=asked,
        result=result,
        past=past,
        frame=frame,
        size=SIZE,
        keys=KEYS,
    )


def check_picture(desk: Desk, request: Request) -> Response:
    """A picture of the sample."""
    tenant, _ = desk.stream(request, "admin")
    index = request.path_params["index"]
    found = checks_of(tenant).picture(int(index)) if index.isdecimal() and len(index) < 4 else None
    if found is None:
        raise Problem(404, "There is no such picture in the check.")
    return Response(found, media_type="image/jpeg")


def _candidates(tenant: Tenant) -> list[Candidate]:
    """The last images in a row, those of them whose picture is kept."""
    return [
        Candidate(entry["id"], shown.position_of(entry["id"]), entry["label"], entry["zero_shot"]["label"])
        for entry in tenant.recent(MOST_CANDIDATES)
        if tenant.thumbnail(entry["id"]) is not None
    ]


def _in_words(result: Result) -> dict[str, Any]:
    """What the figures say, and of what."""
    low, high = result.gain.low, result.gain.high
    if low > 0:
        words = "Adapting helps: the whole interval of the difference is above zero."
    elif high < 0:
        words = "Adapting hurts: the whole interval of the difference is below zero. Consider rolling back."
    elif result.flips == 0:
        words = "There was no flip among them, so both are equally often right."
    else:
        words = "Whether adapting helps cannot be told from these labels: the interval of the difference holds zero."
    about = (
        f"Of the {result.frame:,} images from {result.first:,} to {result.last:,}, {result.flips:,} of them flips; "
        f"{result.labeled} were labeled. Intervals hold the true figure of these images in 95 of 100 checks."
    )
    if result.unclear:
        about += f" {result.unclear} could not be named: the intervals allow for their being right or wrong."
    return {
        "zero_shot": result.zero_shot,
        "adapted": result.adapted,
        "gain": result.gain,
        "words": words,
        "about": about,
    }
