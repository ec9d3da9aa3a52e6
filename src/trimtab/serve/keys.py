"""Keys: the answers to the last requests that carried an idempotency key, so that a repeat is not learned again."""

from collections import OrderedDict
from typing import Any

from trimtab.serve.records import Answer
from trimtab.serve.refusals import KeyReused

MOST = 1024  # keys
MOST_BYTES = 1 << 20  # of the answers' probabilities


class Keys:
    """Key -> what it was used for, and the answer. Bounded by number alone: no clock decides what is repeated."""

    def __init__(self, classes: int) -> None:
        self._most = max(64, min(MOST, MOST_BYTES // (4 * classes)))
        self._known: OrderedDict[str, tuple[str, Answer]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str | None, body: str) -> Answer | None:
        """The first answer to a key; one that was used for another body is refused."""
        if key is None or key not in self._known:
            return None
        used_for, answer = self._known[key]
        check_body(key, used_for, body)
        return answer.again()

    def remember(self, key: str | None, body: str, answer: Answer) -> None:
        """Know an answer by its key."""
        if key is None:
            return
        self._known[key] = body, answer
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def to_note(self) -> list[Any]:
        """All of them, as JSON can hold them."""
        return [[key, body, answer.to_note()] for key, (body, answer) in self._known.items()]

    def recall(self, note: list[Any]) -> None:
        """Know what `to_note` was made from."""
        self._known = OrderedDict((key, (body, Answer.from_note(answer))) for key, body, answer in note)


def check_body(key: str, used_for: str, body: str) -> None:
    """Raise if a key comes back with another body."""
    if used_for != body:
        raise KeyReused(f"The idempotency key {key!r} was used for another image; use a new key for each image.")
