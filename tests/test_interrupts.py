"""Interrupts wait where they would do harm, and arrive where they may."""

import contextlib
import signal
import threading

import pytest

from bench_stores import make_store
from trimtab.cli import main
from trimtab.cli.interruption import CONTINUES, STARTS_OVER
from trimtab.interrupts import HoldInterrupts, Interrupts


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_it_arrives_at_the_end_and_the_old_handler_is_back():
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with HoldInterrupts():
            ctrl_c()
            done.append(1)
        done.append(2)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_arrives_where_it_may():
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupts() as interrupts:  # noqa: PT012
        interrupts.arrive()
        ctrl_c()
        done.append(1)
        interrupts.arrive()
        done.append(2)
    assert done == [1]


@pytest.mark.parametrize("inside", [False, True])
def test_a_welcome_block_ends_at_once(inside):
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupts() as interrupts:  # noqa: PT012
        with interrupts.welcome():
            done.append(1)
        if not inside:
            ctrl_c()
        with interrupts.welcome():
            if inside:
                ctrl_c()
            done.append(2)
    assert done == [1]


@pytest.mark.parametrize("becomes", [None, SystemError])
def test_one_that_compiled_code_swallows_or_changes_is_raised_all_the_same(becomes):
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupts() as interrupts:  # noqa: PT012
        with interrupts.welcome():
            try:
                ctrl_c()
            except KeyboardInterrupt:
                if becomes:
                    raise becomes from None
        done.append(1)
    assert done == []


def test_an_error_of_the_block_itself_stays_what_it_is():
    with pytest.raises(SystemError), HoldInterrupts() as interrupts, interrupts.welcome():
        raise SystemError


def test_a_second_one_does_not_break_what_follows_the_first():
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupts() as interrupts:  # noqa: PT012
        try:
            with interrupts.welcome():
                ctrl_c()
        finally:
            ctrl_c()
            done.append("saved")
    assert done == ["saved"]


def test_one_within_the_other():
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupts():  # noqa: PT012
        with HoldInterrupts():
            ctrl_c()
        done.append("between")
    assert done == ["between"]


def test_a_stop_is_as_good_as_ctrl_c_and_held_back_as_well():
    done = []
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), Interrupts(), HoldInterrupts():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_need_nothing_of_this():
    found = []

    def work():
        with Interrupts(), HoldInterrupts() as interrupts, interrupts.welcome():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_interrupt_that_compiled_code_made_an_error_of_still_ends_a_command_as_interrupted(monkeypatch, capsys):
    def swallowing(**_):
        with contextlib.suppress(KeyboardInterrupt):
            ctrl_c()
        raise TypeError("expected str, not BufferedReader")

    monkeypatch.setattr("trimtab.cli.main.app", swallowing)
    with pytest.raises(SystemExit) as stop:
        main.run()
    assert stop.value.code == 130
    assert "Interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "does", "says"),
    [
        ("attack", "study.attack.trial.try_store", STARTS_OVER),
        ("tune", "study.tune.tune", CONTINUES),
    ],
)
def test_an_interrupted_command_says_whether_it_continues(verb, does, says, tmp_path, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    make_store(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"trimtab.{does}", stopped)
    monkeypatch.setattr("sys.argv", ["trimtab", verb, "store"])
    with pytest.raises(SystemExit) as stop:
        main.run()
    assert stop.value.code == 130
    assert capsys.readouterr().err == f"{says}\n"
