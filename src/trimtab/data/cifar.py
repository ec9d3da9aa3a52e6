"""CIFAR-10 and CIFAR-100: the binary batches, as their authors publish them, found on disk or (CIFAR-10) fetched."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.data.cifar_fetch import CIFAR10_SHA256, fetched_cifar10
from trimtab.errors import TrimtabError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXEL_BYTES = 3 * 32 * 32


def cifar10(path: Path | None = None, split: str = "test") -> ImageSet:
    """CIFAR-10's test (10,000 images) or train (50,000) split.

    Looks into `path` (the batches themselves, or their folder cifar-10-batches-bin); without a path into the cache
    folder, where the batches are fetched if they are not there yet.
    """
    files = [name for name in CIFAR10_SHA256 if name.startswith("test" if _is_test(split) else "data")]
    folder = fetched_cifar10() if path is None else _given_folder(Path(path), "cifar-10-batches-bin", files)
    records = [_records(folder / name, label_bytes=1) for name in files]
    labels = np.concatenate([labels[:, 0] for labels, _ in records])
    pixels = np.concatenate([pixels for _, pixels in records])
    ids = [
        f"{Path(name).stem}/{row}" for name, (batch, _) in zip(files, records, strict=True) for row in range(len(batch))
    ]
    return _image_set("cifar10", CIFAR10_CLASSES, labels, pixels, ids)


def cifar100(path: Path, split: str = "test") -> ImageSet:
    """CIFAR-100 with its 100 fine labels, from a folder that holds the binary version (cifar-100-binary)."""
    file = "test.bin" if _is_test(split) else "train.bin"
    names_file = "fine_label_names.txt"
    folder = _given_folder(Path(path), "cifar-100-binary", [file, names_file])
    class_names = tuple(name.replace("_", " ") for name in (folder / names_file).read_text().split())
    if len(class_names) != 100:
        raise TrimtabError(f"{folder / names_file} lists {len(class_names)} classes instead of 100; copy it again.")
    labels, pixels = _records(folder / file, label_bytes=2)
    return _image_set(
        "cifar100", class_names, labels[:, 1], pixels, [f"{Path(file).stem}/{row}" for row in range(len(labels))]
    )


def _image_set(
    name: str, class_names: tuple[str, ...], labels: NDArray[np.uint8], pixels: NDArray[np.uint8], ids: list[str]
) -> ImageSet:
    if labels.max() >= len(class_names):
        raise TrimtabError(f"The {name} batches hold the label {labels.max()}; they are damaged or another data set.")

    def load(index: int) -> NDArray[np.uint8]:
        return pixels[index].reshape(3, 32, 32).transpose(1, 2, 0).copy()  # stored as three planes

    return ImageSet(name, class_names, labels.astype(np.int64), ids, load)


def _records(file: Path, label_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The (images, label_bytes) labels and (images, 3072) pixels of one batch."""
    content = np.fromfile(file, dtype=np.uint8)
    if len(content) == 0 or len(content) % (label_bytes + PIXEL_BYTES):
        raise TrimtabError(
            f"{file} is truncated ({len(content)} bytes is not a whole number of images); copy it again."
        )
    table = content.reshape(-1, label_bytes + PIXEL_BYTES)
    return table[:, :label_bytes], table[:, label_bytes:]


def _given_folder(path: Path, usual_name: str, files: list[str]) -> Path:
    for folder in (path, path / usual_name):
        if all((folder / name).is_file() for name in files):
            return folder
    raise TrimtabError(f"{path} holds no {usual_name} folder with {' and '.join(files)}; give the folder that does.")


def _is_test(split: str) -> bool:
    if split not in ("test", "train"):
        raise TrimtabError(f"CIFAR has the splits test and train, not {split!r}.")
    return split == "test"
