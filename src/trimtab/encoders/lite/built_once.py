"""Folders that are costly to make: built once, checked on every use, built again when damaged."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import ABANDONED, sha256_of, sweep

CHECKSUMS = "checksums.json"


def built_once(folder: Path, build: Callable[[Path], None], what: str) -> Path:
    """`folder`, after `build(temporary folder)` has filled it if it was missing or damaged.

    The folder appears under its name only when it is whole, so that an interrupted build leaves nothing behind and
    two processes may build at the same time. `what` tells the user what is being made.
    """
    if _is_whole(folder):
        return folder
    damaged = folder.exists()
    print(f"trimtab: {'rebuilding the damaged' if damaged else 'preparing the'} {what}, once ...", file=sys.stderr)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        sweep(folder.parent, untouched=ABANDONED)
        temporary = Path(tempfile.mkdtemp(prefix=f".build-{folder.name}-", dir=folder.parent))
    except OSError as error:
        message = f"{folder.parent} cannot be written to ({error}); set TRIMTAB_CACHE to a folder that can."
        raise TrimtabError(message) from error
    try:
        build(temporary)
        checksums = {path.name: sha256_of(path) for path in sorted(temporary.iterdir())}
        (temporary / CHECKSUMS).write_text(json.dumps(checksums))
        if damaged:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            temporary.rename(folder)
        except OSError:
            if not _is_whole(folder):  # else another process has just finished the same work
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _is_whole(folder: Path) -> bool:
    try:
        checksums: dict[str, str] = json.loads((folder / CHECKSUMS).read_text())
        return bool(checksums) and all(sha256_of(folder / name) == digest for name, digest in checksums.items())
    except (OSError, ValueError, AttributeError):
        return False
