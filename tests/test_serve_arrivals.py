"""Between threads, the event loop and the network: once for many, and nothing left behind."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from trimtab.serve.arrivals import Arrivals
from trimtab.serve.outgoing import MOST_HELD, Outgoing


def test_results_that_come_together_wake_the_loop_once():
    async def wait_for_many():
        loop = asyncio.get_running_loop()
        arrivals, futures, wakes = Arrivals(loop), [Future() for _ in range(50)], []
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *given: (wakes.append(given), wake(*given))[1]
        waiting = [asyncio.ensure_future(arrivals.of(future)) for future in futures]
        await asyncio.sleep(0)
        for number, future in enumerate(futures):
            future.set_result(number)
        return await asyncio.gather(*waiting), len(wakes)

    assert asyncio.run(wait_for_many()) == (list(range(50)), 1)


def test_no_result_of_many_threads_is_left_behind():
    async def wait_for_all():
        arrivals = Arrivals(asyncio.get_running_loop())
        futures = [[Future() for _ in range(500)] for _ in range(4)]

        def give(mine):
            for number, future in enumerate(mine):
                future.set_result(number)

        threads = [threading.Thread(target=give, args=(mine,)) for mine in futures]
        waiting = [arrivals.of(future) for mine in futures for future in mine]
        for thread in threads:
            thread.start()
        found = await asyncio.wait_for(asyncio.gather(*waiting), 20)
        for thread in threads:
            thread.join()
        return found

    assert asyncio.run(wait_for_all()) == list(range(500)) * 4


def test_an_error_arrives_and_who_stops_waiting_cancels():
    async def wait():
        arrivals, failed, given_up = Arrivals(asyncio.get_running_loop()), Future(), Future()
        failed.set_exception(ValueError("bad"))
        with pytest.raises(ValueError, match="bad"):
            await arrivals.of(failed)
        task = asyncio.ensure_future(arrivals.of(given_up))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return given_up.cancelled()

    assert asyncio.run(wait())


def test_a_result_for_a_loop_that_has_ended_is_nobodys():
    future = Future()

    async def leave():
        task = asyncio.ensure_future(Arrivals(asyncio.get_running_loop()).of(future))
        await asyncio.sleep(0)
        future.set_running_or_notify_cancel()
        task.cancel()

    asyncio.run(leave())
    future.set_result(1)


class Wire:
    """A transport that notes what is sent."""

    def __init__(self):
        self.sent, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.sent.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def test_what_is_written_in_one_turn_is_sent_at_once_and_in_order():
    async def answer():
        wire = Wire()
        outgoing = Outgoing(wire)
        outgoing.write(b"head ")
        outgoing.write(b"body")
        assert wire.sent == []
        await asyncio.sleep(0)
        assert wire.sent == [b"head body"]
        outgoing.write(b"x" * (MOST_HELD + 1))
        assert len(wire.sent) == 2  # much is sent at once, so that the loop hears that the client is slow
        outgoing.write(b"last")
        outgoing.close()
        await asyncio.sleep(0)
        assert outgoing.is_closing()
        return wire.sent[2:]

    assert asyncio.run(answer()) == [b"last"]
