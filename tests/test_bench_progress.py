"""Progress: a long job without a terminal says now and then how far it is."""

import io
import re

import pytest

from trimtab.cli import progress as module
from trimtab.cli.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_comes_at_most_every_thirty_seconds(clock, capsys):
    with progress("bench", 90, "runs") as tell:
        for done in range(1, 91):
            clock[0] += 10
            tell(done, "mcp on small")
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert told.out == ""
    assert lines[0] == "bench: 3 of 90 runs, 14 min left"
    assert lines[-1] == "bench: 90 of 90 runs, 0 s left"
    assert len(lines) == 30


def test_what_was_there_before_does_not_make_it_look_fast(clock, capsys):
    with progress("encode", 2000, "images", done=1900) as tell:
        clock[0] += 50
        tell(1910)
    assert capsys.readouterr().err == "encode: 1,910 of 2,000 images, 8 min left\n"


@pytest.mark.parametrize(("seconds", "says"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations_are_for_people(seconds, says):
    assert module._duration(seconds) == says


def test_a_terminal_gets_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress("tune", 3, "trials") as tell:
        tell(3, "tuning [mcp]")
    plain = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", screen.getvalue())
    assert "tuning [mcp]" in plain
    assert "3/3" in plain
