"""One writer per folder: two would overwrite each other's shards."""

from pathlib import Path
from typing import IO

from trimtab.errors import TrimtabError


class FolderLock:
    """Held while a store is being written. The system lets go of it when the process ends, however it ends."""

    FILE = ".lock"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.FILE
        self._file: IO[bytes] | None = self._path.open("wb")
        try:
            import fcntl
        except ImportError:  # Windows: no lock, as before
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise TrimtabError(
                f"Another process is writing to {folder}; wait for it, or choose another folder."
            ) from None

    def release(self, *, remove: bool = False) -> None:
        """Let others write; `remove` also takes the lock's file away."""
        if self._file is None:
            return
        if remove:
            self._path.unlink(missing_ok=True)
        self._file.close()
        self._file = None
