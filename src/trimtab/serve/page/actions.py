"""Actions: what the page's forms change. Each says in a sentence what it did, and which page to show."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.datastructures import FormData

from trimtab.errors import TrimtabError
from trimtab.serve.page import check_page
from trimtab.serve.page.pages import TABS
from trimtab.serve.page.shown import position_of
from trimtab.serve.tenant import Tenant

LONGEST_NOTE = 120


class Done(NamedTuple):
    """A sentence for whoever did it, and the page to go on with, below the stream's."""

    sentence: str
    path: str = ""


Action = Callable[[Tenant, FormData], Done]


def field(form: FormData, name: str) -> str:
    """A field of a form, as text."""
    given = form.get(name)
    if not isinstance(given, str):
        raise TrimtabError(f"The form lacks {name!r}; load the page again.")
    return given


def back(form: FormData) -> str:
    """The page that a form of the head was on, among the stream's own."""
    given = form.get("back")
    return given if given in [path for _, path in TABS] else ""


def freeze(tenant: Tenant, form: FormData) -> Done:
    """Stop learning."""
    tenant.freeze()
    return Done("Frozen: it answers, and learns nothing.", back(form))


def resume(tenant: Tenant, form: FormData) -> Done:
    """Learn again."""
    tenant.resume()
    return Done("It learns again.", back(form))


def feedback(tenant: Tenant, form: FormData) -> Done:
    """Say what an image shows."""
    image, label = field(form, "id"), field(form, "label") or field(form, "other")
    found = tenant.feedback(image, label)
    became = "it stands for that class now" if found.placed else "it is noted, but its features are no longer known"
    page = form.get("page")
    query = f"?page={page}" if isinstance(page, str) and page.isdecimal() else ""
    return Done(f"Image {position_of(image):,} is {label}: {became}.", f"/flips{query}")


def evict(tenant: Tenant, form: FormData) -> Done:
    """Let an image leave the caches."""
    image = field(form, "id")
    items = tenant.evict(image)
    shown = form.get("shown")
    query = f"?{shown}" if isinstance(shown, str) and shown.isprintable() else ""
    return Done(f"Image {position_of(image):,} has left ({items} item{'s' * (items != 1)}).", f"/caches{query}")


def drop_pictures(tenant: Tenant, _: FormData) -> Done:
    """Delete all pictures, those of a check as well."""
    count = tenant.drop_thumbnails()
    check_page.checks_of(tenant).forget_pictures()
    return Done(f"{count:,} pictures were deleted. Nothing learned has changed.", "/caches")


def take_snapshot(tenant: Tenant, form: FormData) -> Done:
    """Keep the state as it is."""
    snapshot = tenant.take_snapshot(note=field(form, "note").strip()[:LONGEST_NOTE])
    return Done(f"Snapshot {snapshot.name} was taken.", "/snapshots")


def restore(tenant: Tenant, form: FormData) -> Done:
    """Go back to a snapshot."""
    name = field(form, "snapshot")
    tenant.restore(name)
    sentence = f"Back at snapshot {name}. What the stream knew until now is a snapshot, too."
    return Done(sentence, back(form) if "back" in form else "/snapshots")


def delete_snapshot(tenant: Tenant, form: FormData) -> Done:
    """Let go of a snapshot."""
    name = field(form, "snapshot")
    tenant.delete_snapshot(name)
    return Done(f"Snapshot {name} was deleted.", "/snapshots")


def _of_check(change: Callable[[Tenant, Mapping[str, Any]], str]) -> Action:
    def action(tenant: Tenant, form: FormData) -> Done:
        return Done(change(tenant, form), "/check")

    return action


ACTIONS: Mapping[str, Action] = {
    "freeze": freeze,
    "resume": resume,
    "feedback": feedback,
    "evict": evict,
    "drop-pictures": drop_pictures,
    "snapshots": take_snapshot,
    "restore": restore,
    "delete-snapshot": delete_snapshot,
    "check/start": _of_check(check_page.start),
    "check/say": _of_check(check_page.say),
    "check/teach": _of_check(check_page.teach),
    "check/drop": _of_check(check_page.drop),
}
