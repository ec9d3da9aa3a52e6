"""Interrupts: Ctrl-C and a request to stop arrive between two steps, never within one.

The one signal discipline of trimtab. Python runs signal handlers between any two instructions of the main thread, so
without this an interrupt can fall between the two halves of a change. Other threads never see one.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself looks up enumerations, ten times as long, at each step
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

HELD_BACK = (signal.SIGINT, signal.SIGTERM)


class HoldInterrupts:
    """In a `with` block, interrupts wait until its end, until `arrive`, or until a block of `welcome`.

    Then they do what they would have done: Ctrl-C raises KeyboardInterrupt. One that nobody handles in Python (SIGTERM,
    as a rule) is left alone and ends the process, as a kill does. While an exception is on its way out, such as the
    KeyboardInterrupt of a first Ctrl-C, a second one is dropped, so that whatever is saved last is saved.
    """

    def __enter__(self) -> Self:
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._waiting: tuple[int, FrameType | None] | None = None
        self._welcome = False
        self._raised: BaseException | None = None
        if threading.current_thread() is threading.main_thread():
            for number in HELD_BACK:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._before[number] = handler
                    _signal.signal(number, self._heard)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._welcome = True  # should an interrupt break off the next lines, whatever stays behind lets others pass
        for number, handler in self._before.items():
            _signal.signal(number, handler)
        if kind is None:
            self.arrive()

    def arrive(self) -> None:
        """Let an interrupt that has been waiting arrive here."""
        if self._waiting is not None:
            (number, frame), self._waiting = self._waiting, None
            self._before[number](number, frame)

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """A block that an interrupt may break off at any point, because it waits or computes and changes nothing.

        Compiled code may swallow what the interrupt raises, or make another error of it; it is raised all the same.
        """
        self._raised = None
        self._welcome = True
        try:
            self.arrive()
            yield
        except Exception:
            if self._raised is None:
                raise
        finally:
            self._welcome = False
        if self._raised is not None:
            raise self._raised

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._welcome:
            try:
                self._before[number](number, frame)
            except BaseException as error:
                self._raised = error
                raise
        elif self._waiting is None:
            self._waiting = number, frame


class Interrupts:
    """In a `with` block, a service manager's request to stop (SIGTERM) is as good as Ctrl-C, and either is remembered.

    Compiled code may make another error of the KeyboardInterrupt (NumPy's reader of files does); `heard` then tells it
    from a bug.
    """

    def __enter__(self) -> Self:
        self.heard = False
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in HELD_BACK:
                if signal.getsignal(number) != signal.SIG_IGN:  # what was started not to hear it stays deaf
                    self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, *_: object) -> NoReturn:
        self.heard = True
        raise KeyboardInterrupt
