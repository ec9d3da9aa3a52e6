"""Standard input, output and error that every verb can rely on, however the command was started."""

import codecs
import errno
import io
import json
import os
import sys
from contextlib import suppress
from typing import IO

ANY_LETTER = "trimtab-any-letter"
STREAMS = ("stdin", "stdout", "stderr")


def prepare_streams() -> None:
    """Let every verb read and write at once: a closed stream is an empty one, and no letter is refused.

    A stream that was closed (`>&-`, some service managers) would lend its number to the first file that is opened.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)  # some other file has the number by now: leave it alone
                continue
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    if os.environ.get("COLUMNS") == "0":  # what some build systems call a terminal of unknown width
        del os.environ["COLUMNS"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ANY_LETTER)


def flush_streams() -> OSError | None:
    """Write out what is still held back; if standard output cannot be written, say why, and give it up.

    Python would flush at the very end, and show an "Exception ignored" to the user.
    """
    reason = None
    for name in STREAMS[:0:-1]:  # standard output last: its reason is the one that counts
        try:
            getattr(sys, name).flush()
        except OSError as error:
            reason = error if name == "stdout" else None
            _give_up(getattr(sys, name))
    return reason


def reader_has_left(error: OSError) -> bool:
    """Whether the program that read our output has stopped reading, as `head` does."""
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def _give_up(stream: IO[str]) -> None:
    """Let what is still to come, and what Python flushes at the end, go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _escape(error: UnicodeError) -> tuple[bytes, int]:
    """What a terminal's encoding cannot hold: as JSON writes it, so that JSON stays JSON; odd names as they came."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return b"".join(_raw(letter) or json.dumps(letter)[1:-1].encode() for letter in letters), error.end


def _raw(letter: str) -> bytes:
    """The byte behind a letter that stands for one: file names need not be UTF-8."""
    return os.fsencode(letter) if 0xDC80 <= ord(letter) <= 0xDCFF else b""


codecs.register_error(ANY_LETTER, _escape)
