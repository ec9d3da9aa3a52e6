"""Mendable: what somebody may do to what was learned: forget a source, evict an image, correct one, ask why."""

import threading

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.engine.given import Inputs
from trimtab.errors import TrimtabError
from trimtab.guard.correction import correct
from trimtab.interrupts import HoldInterrupts
from trimtab.learner import Learner


class Mendable(Learner):
    """A learner whose images can be taken out and put right. `Stream` is what users hold."""

    _given: Inputs
    _size: int
    _turn: threading.RLock  # one thread at a time: whoever steps changes arrays that others would read

    def forget(self, source: str) -> int:
        """Let go of every item that came from a source; how many there were.

        It is known who sent the last 30,720 images that were learned, among them those that a guard had refused and
        somebody corrected before 2,048 others came.
        """
        arguments.text("source", source)
        if self.watch is None:
            raise TrimtabError("Sources are known only to a stream with a guard; start it with guard=Guard().")
        with self._turn:
            positions = self.watch.positions_of(source)
            return self._let_go(positions, "it cannot forget a source; go back to a state from before")

    def evict(self, position: int) -> int:
        """Let go of every item that an image, counted from 0, has left; how many there were."""
        arguments.whole("position", position, least=0)
        with self._turn:
            self._refuse_unseen(position)
            return self._let_go(np.array([position]), "it cannot let go of one; go back to a state from before")

    def _let_go(self, positions: NDArray[np.int64], cannot: str) -> int:
        with HoldInterrupts():
            self._refuse_half_learned()
            count = self.state.forget(positions)
            if count is None:
                raise TrimtabError(
                    f"{self.method.name} does not keep which image an item came from, so {cannot}, or reset."
                )
            self.method.items_left(self.state)
            self._drop_snapshots_of(positions)
        return count

    def correct(self, position: int, label: int, views: ArrayLike | None = None) -> int:
        """Somebody knows what an image, counted from 0, shows: its items move to that class; how many there were.

        An image that is not held, or no longer, is placed under its class if its features are given again.
        """
        arguments.whole("position", position, least=0)
        if arguments.whole("label", label, least=0) >= self.task.classes:
            raise TrimtabError(f"label must be below {self.task.classes}, the number of classes, not {label}.")
        given = None if views is None else self._given.one_image(views, self._size)[0, 0]
        with self._turn, HoldInterrupts():
            self._refuse_half_learned()
            self._refuse_unseen(position)
            count = correct(self.state, position, label, given)
            if count is None:
                raise TrimtabError(
                    f"{self.method.name} does not keep which image an item came from, so it cannot be corrected."
                )
            self.method.items_left(self.state)
            self._drop_snapshots_of(np.array([position]))
            if self.watch is not None:
                self.watch.corrected(position)
        return count

    def _drop_snapshots_of(self, positions: NDArray[np.int64]) -> None:
        if self.good is not None:
            self.good.let_go(positions)

    def _refuse_unseen(self, position: int) -> None:
        if position >= self.seen:
            raise TrimtabError(f"There is no image {position}, counted from 0; the stream has seen {self.seen}.")

    def why(self, position: int) -> str:
        """Why an image, counted from 0, was learned from or not."""
        arguments.whole("position", position, least=0)
        if self.watch is None:
            self._refuse_unseen(position)
            return "Learned: no guard is on." if self.guard is None else "Nothing of it is kept, so nothing is guarded."
        return self.watch.why(position, self.seen)
