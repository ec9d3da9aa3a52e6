"""Logs: one JSON object per line on standard error, each request with the id that its answer carries."""

import itertools
import json
import logging
import re
import secrets
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

LOGGER: Final = "trimtab.serve"
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = logging.getLogger(LOGGER)
_as_text = json.JSONEncoder(default=str).encode  # `json.dumps` would make one for each line
_begun, _count = secrets.token_hex(4), itertools.count()


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what `extra={"facts": {...}}` holds becomes keys of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return _as_text(line)


class ShortLines(logging.Formatter):
    """The same for people who watch: the time and what happened."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        facts = getattr(record, "facts", {})
        line = f"{when} {record.getMessage()} {' '.join(str(fact) for fact in facts.values())}".rstrip()
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def log_to_standard_error(*, as_json: bool, level: int = logging.INFO) -> None:
    """What a server does with its log, and uvicorn's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else ShortLines())
    for name in (LOGGER, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level if name == LOGGER else max(level, logging.WARNING))


def request_id(given: str | None) -> str:
    """The id that a client gave its request, or a new one; nothing that could break a log's line is taken over."""
    return given if given is not None and ID.fullmatch(given) else f"{_begun}{next(_count):08x}"


def started(address: str, folder: Path) -> None:
    """The line that says where a server listens."""
    log.info("serving", extra={"facts": {"address": address, "folder": str(folder)}})
