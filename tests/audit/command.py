"""The `trimtab` command with one encoder more: `-e colors`, which is fast enough for hundreds of runs.

`python -m tests.audit.command VERB ...` is what `trimtab VERB ...` is, error handling included.
"""

from typing import Any

from tests.tiny_encoder import ColorEncoder
from trimtab import encoders
from trimtab.cli import main

_load = encoders.load_encoder


def load_encoder(name: str, **options: Any) -> Any:
    """The encoder of that name, or the fast one."""
    return ColorEncoder() if name == "colors" else _load(name, **options)


def run() -> None:
    """The command line, with the fast encoder known to every verb."""
    encoders.load_encoder = load_encoder
    try:
        main.run()
    finally:
        encoders.load_encoder = _load


if __name__ == "__main__":
    run()
