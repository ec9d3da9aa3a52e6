"""Files that are written whole or not at all, and that survive a power cut once written."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name, flush to the disk, take the final name. A kill at any point leaves old or new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make a file's new name in `folder` survive a power cut; systems that cannot do without."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
