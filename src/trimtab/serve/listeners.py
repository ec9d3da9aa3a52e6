"""Listeners: who wants to know what happens in a stream, as it happens."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trimtab.serve.contents import held_positions
from trimtab.serve.memory import Memory
from trimtab.serve.records import Answer

_log = logging.getLogger(__name__)
Event = dict[str, Any]
Callback = Callable[[Event], None]


class Listeners:
    """Callbacks, each given every event as a dictionary with its "kind"."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Add a callback; the function returned takes it out again."""
        self._callbacks = (*self._callbacks, callback)

        def stop() -> None:
            self._callbacks = tuple(other for other in self._callbacks if other is not callback)

        return stop

    def tell(self, kind: str, **facts: Any) -> None:
        """Something happened. A callback that fails is no reason for a stream to fail."""
        for callback in self._callbacks:
            try:
                callback({"kind": kind, **facts})
            except Exception:
                _log.exception("a listener failed")

    def answered(self, answer: Answer) -> None:
        """An image was answered: step, flip and guard events."""
        if not self._callbacks:
            return
        facts = {
            "id": answer.id,
            "label": answer.label,
            "score": answer.score,
            "zero_shot": answer.zero_shot.label,
            "agree": answer.agree,
            "learned": answer.learned,
            "why_not": answer.why_not,
            "seen": answer.seen,
            "version": answer.version,
        }
        self.tell("step", **facts)
        if answer.flipped:
            self.tell("flip", **facts)
        if answer.durable and answer.why_not.startswith("Not learned:"):
            self.tell("guard", **facts)

    @contextmanager
    def of_caches(self, memory: Memory) -> Iterator[None]:
        """Tell what the caches have gained and lost in a block: write and eviction events."""
        if not self._callbacks:
            yield
            return
        before = held_positions(memory)
        yield
        after = held_positions(memory)
        for kind, positions in (("write", np.setdiff1d(after, before)), ("eviction", np.setdiff1d(before, after))):
            for position in positions.tolist():
                self.tell(kind, id=memory.lineage.id_of(position))
