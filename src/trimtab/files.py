"""Files: written whole or not at all, checksummed, downloaded, locked, kept in one cache folder, announced.

The lowest layer beside `errors`. What costs time to import (rich, filelock, the web) is imported where it is used.
"""

import errno
import glob
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from trimtab.errors import TrimtabError

SILENCE_SECONDS = 20.0  # how long a server may say nothing
PIECE = 1 << 20  # bytes read at a time
PART = ".part"  # how the names of files end that are being written
SCRATCH = (".fetch-", ".build-")  # how the names of folders begin that are being filled
ABANDONED = 3600.0  # seconds without a change after which a file in the shared cache folder is nobody's


def cache_folder(*parts: str) -> Path:
    """A folder below the user's cache folder (or below $TRIMTAB_CACHE), created if missing."""
    import platformdirs

    root = os.environ.get("TRIMTAB_CACHE") or platformdirs.user_cache_dir("trimtab")
    folder = Path(root).expanduser().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrimtabError(
            f"The cache folder {folder} cannot be created ({error.strerror or error}); "
            "set TRIMTAB_CACHE to a folder that can be written."
        ) from error
    return folder


def say(sentence: str) -> None:
    """Print one sentence for people on standard error, so that standard output stays data."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(sentence, soft_wrap=True, markup=False)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refuse_special(path: Path) -> None:
    """Raise unless there is a regular file at `path`, or nothing yet: a pipe would hang, a device be replaced.

    OSError, if what is there cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise TrimtabError(f"{path} is a folder; give the name of a file.")
    if not stat.S_ISREG(mode):
        raise TrimtabError(f"{path} exists and is not a regular file; choose another file.")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a kill or a power cut at any point leaves the old content or the new, never a part.

    Only a regular file is ever replaced.
    """
    with _appearing_whole(path) as file:
        file.write(content)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together, so that no kill leaves a new one beside an old one.

    All of them are complete under other names before the old ones go. A kill after that leaves some missing. An OSError
    names the file that could not be written.
    """
    with ExitStack() as stack:
        for path, content in contents.items():
            try:
                file = stack.enter_context(_appearing_whole(path))
                file.write(content)
                file.flush()
            except OSError as error:
                error.filename = str(path)
                raise
        for path in list(contents)[:-1]:  # the last appears first, in one step with the disappearing of its old content
            path.unlink(missing_ok=True)


def download(
    address: str, file: Path, what: str, *, sha256: str | None = None, silence: float = SILENCE_SECONDS
) -> None:
    """Write what is at `address` to `file`, with a progress bar called `what` on a terminal.

    OSError says what went wrong: no connection or no word within `silence` seconds, a connection that broke off, or
    content that has another checksum. Then there is no new file, and an old one stays as it was.
    """
    import http.client
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(address, timeout=silence) as answer, _appearing_whole(file) as target:
            length = int(answer.headers.get("Content-Length") or 0) or None
            digest, size = hashlib.sha256(), 0
            for piece in _pieces_with_progress(answer, what, length):
                target.write(piece)
                digest.update(piece)
                size += len(piece)
            if length is not None and size != length:
                raise OSError(f"the connection broke off after {size} of {length} bytes")
            if sha256 is not None and digest.hexdigest() != sha256:
                raise OSError(f"what came from {address} has the wrong checksum")
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        raise OSError(f"{address} cannot be reached: {error.reason}") from error
    except http.client.HTTPException as error:
        raise OSError(f"{address} gave an answer that is not HTTP: {error!r}") from error


class _Lock:
    """One writer, because two would overwrite each other's work.

    The system lets go of the lock when the process ends, however it ends.
    """

    def __init__(self, file: Path, refusal: str) -> None:
        import filelock

        self._path = file
        # Not bound to a thread: a writer may be closed by another thread than the one that opened it.
        self._lock = filelock.FileLock(self._path, timeout=0, thread_local=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            if not file.exists():  # nobody holds it: filelock also waits where no file can be made, as in /proc
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from None
            raise TrimtabError(refusal) from None

    def release(self, *, remove: bool = False) -> None:
        """Let others write; `remove` also deletes the lock's file. Releasing twice does nothing."""
        if not self._lock.is_locked:
            return
        if remove:  # before the release: afterwards the file may be another writer's
            with suppress(PermissionError):  # Windows keeps open files, and filelock deletes it there
                self._path.unlink(missing_ok=True)
        self._lock.release()


class FolderLock(_Lock):
    """One writer per folder."""

    FILE = ".lock"

    def __init__(self, folder: Path) -> None:
        refusal = f"Another process is writing to {folder}; wait for it, or choose another folder."
        super().__init__(folder / self.FILE, refusal)


class FileLock(_Lock):
    """One writer per file, recognized under every link to it; the lock is a hidden file beside it."""

    def __init__(self, file: Path) -> None:
        real = Path(os.path.realpath(file.expanduser()))
        try:
            refuse_special(file.expanduser())
            real.parent.stat()  # or the lock would create the folder
            refusal = f"Another process is using {file}; wait for it, or choose another file."
            super().__init__(real.with_name(f".{real.name}.lock"), refusal)
        except OSError as error:
            raise TrimtabError(f"{file} cannot be written: {error.strerror or error}.") from None
        for leftover in real.parent.glob(f".{glob.escape(real.name)}.*{PART}"):  # of a writer that was killed
            with suppress(OSError):
                leftover.unlink()


def sweep(folder: Path, *, untouched: float = 0.0) -> None:
    """Remove what killed processes have left in a folder: half-written files and scratch folders, all hidden.

    Whoever holds the folder's lock is its only writer and removes them all. Where several may write, as in the cache
    folder, only those that nobody has touched for `untouched` seconds are surely nobody's.
    """
    for entry in folder.glob(".*"):
        if not (entry.name.endswith(PART) or entry.name.startswith(SCRATCH)):
            continue
        with suppress(OSError):  # another process was faster, or it is not ours to remove
            inside = entry.rglob("*") if entry.is_dir() else ()
            touched = max(path.lstat().st_mtime for path in (entry, *inside))
            if time.time() - touched < untouched:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


@contextmanager
def _appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name, which takes the name `path` once it is complete and on the disk."""
    refuse_special(path)
    # Not the process's number alone: machines that share a folder may have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # make the new name, too, survive a power cut; other systems do without
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _pieces_with_progress(answer: IO[bytes], what: str, length: int | None) -> Iterator[bytes]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=length)
        while piece := answer.read(PIECE):
            yield piece
            progress.advance(task, len(piece))
