"""Groups: requests that wait for a stream together, and the plan of one commit for all of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.serve.keys import Keys, check_body
from trimtab.serve.memory import Memory
from trimtab.serve.records import Answer, Record, Request

LONGEST_KEY = 255
LONGEST_SOURCE = 255


class Group:
    """Requests of one call. `together`: if one of them is refused, so are all."""

    def __init__(self, requests: Sequence[Request], together: bool) -> None:
        self.requests, self.together = tuple(requests), together
        self.answers: list[Answer | TrimtabError | None] = [None] * len(self.requests)
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether somebody has answered it."""
        return self._error is not None or None not in self.answers

    def fail(self, error: BaseException) -> None:
        """Nothing will come of it."""
        self._error = error

    def result(self) -> list[Answer | TrimtabError]:
        """The answers, or the error."""
        if self._error is not None:
            raise self._error
        return [answer for answer in self.answers if answer is not None]


class _Slot:
    """One request on its way to an answer."""

    def __init__(self, group: Group, index: int) -> None:
        self.group, self.index, self.request = group, index, group.requests[index]
        self.rows: Any = None
        self.body = ""
        self.learn = False
        self.repeats: _Slot | None = None  # one of the same key in the same plan

    def answer(self, answer: Answer | TrimtabError) -> None:
        self.group.answers[self.index] = answer


class Plan:
    """What to do about the groups at hand: answers that are known, records to write, images to look at."""

    def __init__(self, memory: Memory, looked: Keys, groups: Sequence[Group]) -> None:
        self._memory, self._looked = memory, looked
        self._by_key: dict[str, _Slot] = {}
        self._learning: list[_Slot] = []
        self._looking: list[_Slot] = []
        self._repeating: list[_Slot] = []
        self.records: list[Record] = []
        for group in groups:
            self._add(group)

    def learned(self, answers: Sequence[Answer]) -> None:
        """The records were written and applied."""
        for slot, answer in zip(self._learning, answers, strict=True):
            slot.answer(answer)

    def look(self, why_not: str, name: Callable[[], str]) -> None:
        """Answer all others without a trace; `why_not` says why nothing could be learned, if it could not."""
        frozen = "The stream is frozen." if self._memory.frozen else "It was not asked for."
        for slot in self._learning:
            if slot.group.answers[slot.index] is None:
                slot.answer(self._memory.look(slot.rows, name(), why_not, durable=False))
        for slot in self._looking:
            answer = self._memory.look(
                slot.rows, name(), frozen if slot.request.learn else "It was not asked for.", durable=True
            )
            self._looked.remember(slot.request.key, slot.body, answer)
            slot.answer(answer)
        for slot in self._repeating:
            assert slot.repeats is not None
            first = slot.repeats.group.answers[slot.repeats.index]
            assert isinstance(first, Answer)
            slot.answer(first.again())

    def fresh(self) -> Iterator[tuple[Request, Answer]]:
        """The requests that were answered for the first time."""
        for slot in (*self._learning, *self._looking):
            answer = slot.group.answers[slot.index]
            if isinstance(answer, Answer):
                yield slot.request, answer

    def _add(self, group: Group) -> None:
        slots, errors = [], []
        bodies: dict[str, str] = {}
        for index in range(len(group.requests)):
            slot = _Slot(group, index)
            try:
                if not self._known(slot, bodies):
                    slots.append(slot)
            except TrimtabError as error:
                errors.append(error)
                slot.answer(error)
        if errors and group.together:
            group.fail(errors[0])
            return
        for slot in slots:
            self._place(slot)

    def _known(self, slot: _Slot, bodies: dict[str, str]) -> bool:
        """Check a request; whether its answer is known already. `bodies` are those of the group's keys so far."""
        request = slot.request
        slot.rows = self._memory.check_rows(request.features)
        _check_text("key", request.key, LONGEST_KEY)
        _check_text("source", request.source, LONGEST_SOURCE)
        slot.learn = request.learn and not self._memory.frozen
        if request.key is None:
            return False
        slot.body = request.body
        check_body(request.key, bodies.setdefault(request.key, slot.body), slot.body)
        if request.key in self._by_key:
            check_body(request.key, self._by_key[request.key].body, slot.body)
        found = self._memory.keys.find(request.key, slot.body) or self._looked.find(request.key, slot.body)
        if found is None:
            return False
        slot.answer(found)
        return True

    def _place(self, slot: _Slot) -> None:
        key = slot.request.key
        if key is not None:
            first = self._by_key.setdefault(key, slot)
            if first is not slot:
                slot.repeats = first
                self._repeating.append(slot)
                return
        if not slot.learn:
            self._looking.append(slot)
            return
        self._learning.append(slot)
        self.records.append(self._record(slot.request, slot.rows, slot.body))

    def _record(self, request: Request, rows: Array, body: str) -> Record:
        position = self._memory.stream.seen + len(self.records)
        facts: dict[str, Any] = {"id": self._memory.lineage.id_of(position), "when": round(time.time(), 3)}
        if request.source is not None:
            facts["source"] = request.source
        if request.key is not None:
            facts |= {"key": request.key, "body": body}
        return Record("image", facts, rows)


def _check_text(name: str, value: str | None, longest: int) -> None:
    if value is not None and len(arguments.text(name, value)) > longest:
        raise TrimtabError(f"{name} must have at most {longest} characters, not {len(value)}.")
