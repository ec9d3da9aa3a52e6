"""What made a figure: the versions of the programs, and of the very code that computes predictions."""

import hashlib
import platform
from functools import cache
from pathlib import Path

import numpy as np

import trimtab

PREDICTING = (".", "engine", "methods", "fusion")  # folders of trimtab whose modules decide what a method says


def versions() -> dict[str, str]:
    """Of trimtab, its predicting code, Python and NumPy."""
    return {
        "trimtab": trimtab.__version__,
        "code": code_fingerprint(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


@cache
def code_fingerprint() -> str:
    """A hash of the modules that predictions depend on: a release has one, and so has every change in between."""
    root = Path(trimtab.__file__).parent
    digest = hashlib.sha256()
    for folder in PREDICTING:
        for module in sorted((root / folder).glob("*.py")):
            digest.update(f"{folder}/{module.name}\0".encode() + module.read_bytes())
    return digest.hexdigest()[:12]
