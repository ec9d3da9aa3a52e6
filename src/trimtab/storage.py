"""Folders on this machine and behind URLs (s3://, gs://, memory://, ...), with the few verbs that stores need.

A local folder is memory-mapped and written through `files`. Everything else goes through fsspec, which knows the
protocols; a file appears whole there too, because object stores show an upload only when it is complete, and on other
systems it is written under another name first.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import sha256_of, write_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# An upload to these appears whole or not at all; a rename there would be a second copy.
WHOLE_UPLOADS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory", "hf")


class Folder(Protocol):
    """A flat folder of files."""

    def __str__(self) -> str:
        """How the user named it."""

    def read(self, name: str) -> bytes:
        """A file's content; FileNotFoundError if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole; OSError if it cannot be."""

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""

    def sizes(self) -> dict[str, int]:
        """Every file with its bytes, folders with -1; nothing if the folder does not exist."""

    def sha256(self, name: str) -> str:
        """The checksum of a file's content."""

    def array(self, name: str) -> Any:
        """The .npy file of a name, of which only the rows that are asked for are read."""


def is_url(place: object) -> bool:
    """Whether it names a place by a protocol, as in s3://bucket/folder."""
    return isinstance(place, str) and "://" in place


def folder_at(name: str, place: object) -> Folder:
    """The folder that a user names by a path or a URL; `name` is the argument's, for error messages."""
    if not is_url(place):
        return LocalFolder(arguments.place(name, place))
    url = str(place).rstrip("/")
    if url.startswith(("file://", "local://")):
        return LocalFolder(Path(url.split("://", 1)[1]))
    return RemoteFolder(url)


class LocalFolder:
    """A folder on this machine, or on a file system that it has mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """A file's content."""
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / name, content)

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Every file with its bytes, folders with -1."""
        if not self.path.is_dir():
            return {}
        with os.scandir(self.path) as entries:
            return {entry.name: _size(entry) for entry in entries}

    def sha256(self, name: str) -> str:
        """The checksum of a file's content."""
        return sha256_of(self.path / name)

    def array(self, name: str) -> "NDArray[Any]":
        """A memory map."""
        import numpy as np

        mapped: NDArray[Any] = np.load(self.path / name, mmap_mode="r", allow_pickle=False)
        return mapped


class RemoteFolder:
    """A folder behind a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._protocol = url.split("://", 1)[0].split("::")[0]
        self._files, self._root = _file_system(url)

    def __str__(self) -> str:
        return self._url

    def __reduce__(self) -> tuple[type["RemoteFolder"], tuple[str]]:
        return RemoteFolder, (self._url,)  # another process opens its own connection

    def read(self, name: str) -> bytes:
        """A file's content."""
        with _remote_errors(self._url):
            content: bytes = self._files.cat_file(self._at(name))
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        with _remote_errors(self._url):
            if self._protocol in WHOLE_UPLOADS:
                self._files.pipe_file(self._at(name), content)
                return
            self._files.makedirs(self._root, exist_ok=True)
            part = self._at(f".{name}.{secrets.token_hex(4)}.part")
            self._files.pipe_file(part, content)
            self._files.mv(part, self._at(name))

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with _remote_errors(self._url):
            if self._files.exists(self._at(name)):
                self._files.rm_file(self._at(name))

    def sizes(self) -> dict[str, int]:
        """Every file with its bytes, folders with -1: one request, however many files there are."""
        with _remote_errors(self._url):
            self._files.invalidate_cache(self._root)  # other machines write there, too
            try:
                listed = self._files.ls(self._root, detail=True)
            except FileNotFoundError:
                return {}
            return {
                entry["name"].rstrip("/").rsplit("/", 1)[-1]: int(entry["size"] or 0) if entry["type"] == "file" else -1
                for entry in listed
            }

    def below(self) -> list[str]:
        """Every file in it and in its subfolders, by its path from here."""
        with _remote_errors(self._url):
            try:
                found = self._files.find(self._root)
            except FileNotFoundError:  # no such bucket, where a protocol tells
                return []
            return [path.removeprefix(self._root).lstrip("/") for path in found]

    def sha256(self, name: str) -> str:
        """The checksum of a file's content."""
        import hashlib

        with _remote_errors(self._url), self._files.open(self._at(name), "rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(1 << 22):
                digest.update(piece)
            return digest.hexdigest()

    def array(self, name: str) -> "RemoteRows":
        """Rows that are read when they are asked for."""
        with _remote_errors(self._url):
            return RemoteRows(self._files.open(self._at(name), "rb"), self._url)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


class RemoteRows:
    """The rows of a .npy file behind a URL; neighbors are read together, through fsspec's own read-ahead."""

    def __init__(self, file: Any, url: str) -> None:
        import numpy as np

        self._file, self._url = file, url
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, fortran, self.dtype = read(file)
        if fortran:
            raise ValueError("its columns, not its rows, lie together")
        self._start = file.tell()
        self._row = int(np.prod(self.shape[1:])) * self.dtype.itemsize

    def __getitem__(self, rows: "Sequence[int] | NDArray[np.int64]") -> "NDArray[Any]":
        import numpy as np

        wanted = np.asarray(rows, np.int64)
        taken = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        by_place = np.argsort(wanted, kind="stable")
        ordered = wanted[by_place]
        gaps = np.flatnonzero(np.diff(ordered) > 1) + 1
        for here in np.split(by_place, gaps):
            if len(here):
                first, last = int(wanted[here[0]]), int(wanted[here[-1]])
                taken[here] = self._read(first, last + 1)[wanted[here] - first]
        return taken

    def _read(self, first: int, stop: int) -> "NDArray[Any]":
        import numpy as np

        with _remote_errors(self._url):
            self._file.seek(self._start + first * self._row)
            content = self._file.read((stop - first) * self._row)
        return np.frombuffer(content, self.dtype).reshape(stop - first, *self.shape[1:])


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat().st_size if entry.is_file() else -1
    except OSError:  # a link that leads to itself, or to nowhere
        return -1


def _file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise TrimtabError(f"{url} is not on this machine, which needs fsspec; run: pip install fsspec") from None
    protocol = url.split("://", 1)[0]
    try:
        files, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise TrimtabError(f"{url} cannot be reached: {error}.") from None
    except ValueError:
        raise TrimtabError(f"{url} cannot be reached: {protocol}:// is no protocol that fsspec knows.") from None
    return files, str(root).rstrip("/")


@contextmanager
def _remote_errors(url: str) -> Iterator[None]:
    """What a service says, in one sentence; a missing file stays a FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, TrimtabError):
        raise
    except PermissionError as error:
        raise TrimtabError(f"{url} may not be read or written with these credentials: {_first_line(error)}.") from None
    except Exception as error:  # each protocol's package has errors of its own
        raise TrimtabError(f"{url} cannot be read or written: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
