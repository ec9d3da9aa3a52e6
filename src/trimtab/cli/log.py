"""What `-v` shows: the log of the library, on standard error."""

import logging
import sys
from typing import TextIO

QUIET = logging.WARNING


def show_log(verbose: int) -> None:
    """Log to standard error: warnings only, with `verbose` 1 also what is done (INFO), with 2 all of it (DEBUG)."""
    logger = logging.getLogger("trimtab")
    if not any(isinstance(handler, _ToStderr) for handler in logger.handlers):
        handler = _ToStderr()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s %(name)s: %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
    logger.setLevel(_level(QUIET, verbose))


def show_more_log(verbose: int) -> None:
    """Add to what `show_log` shows already, so that `trimtab -v bench -v` is `trimtab -vv bench`."""
    logger = logging.getLogger("trimtab")
    logger.setLevel(_level(logger.level, verbose))


def _level(before: int, verbose: int) -> int:
    return max(logging.DEBUG, before - verbose * (logging.INFO - logging.DEBUG))


class _ToStderr(logging.StreamHandler[TextIO]):
    """Asks for standard error at each line: a progress bar replaces it while it is on the screen."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
