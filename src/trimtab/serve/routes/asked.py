"""What a request for answers may say beside its pictures.

Read here by hand, and described by hand: on this way, which every picture takes, FastAPI's own reading of parameters
took more than a third of the event loop's time.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request

from trimtab.serve.problems import Problem

MOST_LABELS = 100_000
LONGEST_SOURCE, LONGEST_KEY = 128, 200
YES, NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@dataclass(frozen=True)
class Asked:
    """Whether to learn, how many labels to name, whether to explain, who sent it, and the key of a repeat."""

    learn: bool
    top: int
    explain: bool
    source: str | None
    key: str | None

    @classmethod
    def of(cls, request: Request, top: int = 5) -> "Asked":
        """What a request says; `top` if it says nothing of that."""
        query = request.query_params
        return cls(
            learn=_switch("learn", query.get("learn", "true")),
            top=_count("top", query.get("top", str(top))),
            explain=_word("explain", query.get("explain")),
            source=_text("source", query.get("source"), LONGEST_SOURCE),
            key=_text("Idempotency-Key", request.headers.get("idempotency-key"), LONGEST_KEY),
        )


def _switch(name: str, given: str) -> bool:
    if given.lower() not in (*YES, *NO):
        raise _refusal(f"{name} must be true or false, not {given[:20]!r}.")
    return given.lower() in YES


def _count(name: str, given: str) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) <= 6 and 1 <= int(given) <= MOST_LABELS):
        raise _refusal(f"{name} must be a whole number from 1 to {MOST_LABELS}, not {given[:20]!r}.")
    return int(given)


def _word(name: str, given: str | None) -> bool:
    if given not in (None, "parts"):
        raise _refusal(f"{name} must be 'parts', or left out, not {given[:20]!r}.")
    return given is not None


def _text(name: str, given: str | None, longest: int) -> str | None:
    if given is not None and not 1 <= len(given) <= longest:
        raise _refusal(f"{name} must have from 1 to {longest} letters, not {len(given)}.")
    if given is not None and not given.strip():
        raise _refusal(f"{name} must say something.")
    return given


def _refusal(sentence: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)


def _described(name: str, where: str, text: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "required": False, "description": text, "schema": schema}


KEY: Final = _described(
    "Idempotency-Key",
    "header",
    "A repeat with the same key and body is not learned again, and gets the first answer.",
    type="string",
    minLength=1,
    maxLength=LONGEST_KEY,
)
LEARN: Final = _described("learn", "query", "Whether the stream may learn from it.", type="boolean", default=True)
COUNT: Final = {"type": "integer", "minimum": 1, "maximum": MOST_LABELS}
TOP_OF_ALL: Final = _described("top", "query", "How many labels to name; all, if it is left out.", **COUNT)
PARAMETERS: Final = [
    LEARN,
    _described("top", "query", "How many labels to name.", **COUNT, default=5),
    _described("explain", "query", "'parts': also the best label of each part.", type="string", enum=["parts"]),
    _described(
        "source", "query", "Who sent it, for the guard's quota.", type="string", minLength=1, maxLength=LONGEST_SOURCE
    ),
    KEY,
]
