"""Which file of a checkpoint's folder is broken: libraries say what they tripped over, not where it lies."""

import json
import zipfile
from pathlib import Path

from trimtab.errors import TrimtabError

ZIPPED = (".bin", ".pt", ".pth")  # torch has written zip archives since 2020


def refuse_damaged(folder: Path) -> None:
    """Name the first file that cannot be what its name says it is: cut off, empty, or of another kind."""
    for file in sorted(folder.iterdir()):
        problem = _problem(file)
        if problem:
            raise TrimtabError(f"{file} is damaged or incomplete ({problem}); copy it again.")


def _problem(file: Path) -> str | None:
    try:
        if file.suffix == ".safetensors":
            return _problem_of_tensors(file)
        if file.suffix == ".json":
            found = json.loads(file.read_text(encoding="utf-8"))
            return None if isinstance(found, dict) else "it holds no JSON object"
        if file.suffix in ZIPPED and not zipfile.is_zipfile(file):
            return "it is no archive of weights"
        if file.name == "merges.txt":
            lines = file.read_text(encoding="utf-8").splitlines()
            wrong = [line for line in lines if line.strip() and line[0] != "#" and len(line.split()) != 2]
            return f"the line {wrong[0][:40]!r} is no merge of two parts" if wrong else None
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # also JSON's and UTF-8's
        return str(error)
    return None


def _problem_of_tensors(file: Path) -> str | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            return None
    except SafetensorError as error:
        return str(error)
