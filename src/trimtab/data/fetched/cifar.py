"""CIFAR-10 and CIFAR-100, as their authors publish them: found on disk or (CIFAR-10) fetched."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.data.fetched.cifar_fetch import fetched_cifar10
from trimtab.data.fetched.cifar_files import Batch, read_binary, read_class_names, read_python
from trimtab.errors import TrimtabError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, eq=False)
class PlanarImages:
    """32 x 32 images held in memory as (N, 3072) bytes: all red, then all green, then all blue."""

    pixels: NDArray[np.uint8]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (32, 32, 3) bytes."""
        return self.pixels[index].reshape(3, 32, 32).transpose(1, 2, 0).copy()


def cifar10(path: Path | None = None, split: str = "test") -> ImageSet:
    """CIFAR-10's test (10,000 images) or train (50,000) split.

    Looks into `path` for the binary or the Python version (cifar-10-batches-bin, cifar-10-batches-py, or their files);
    without a path into the cache folder, where the batches are fetched if they are not there yet.
    """
    names = ["test_batch"] if _is_test(split) else [f"data_batch_{number}" for number in range(1, 6)]
    place = fetched_cifar10() if path is None else Path(path)
    binary = [f"{name}.bin" for name in names]
    if folder := _folder_with(place, "cifar-10-batches-bin", binary):
        batches = [read_binary(folder / name, label_bytes=1) for name in binary]
    elif folder := _folder_with(place, "cifar-10-batches-py", names):
        batches = [read_python(folder / name, "labels") for name in names]
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
        batch = read_binary(folder / f"{name}.bin", label_bytes=2)  # a coarse label, then the fine one
    elif folder := _folder_with(place, "cifar-100-python", [name, "meta"]):
        class_names = read_class_names(folder / "meta", "fine_label_names")
        batch = read_python(folder / name, "fine_labels")
    else:
        raise TrimtabError(
            f"{place} holds neither cifar-100-binary nor cifar-100-python with the {split} images; "
            "give the folder that does."
        )
    if len(class_names) != 100:
        raise TrimtabError(f"{folder} lists {len(class_names)} classes instead of 100; copy it again.")
    return _image_set("cifar100", tuple(word.replace("_", " ") for word in class_names), [name], [batch])


def _image_set(name: str, class_names: tuple[str, ...], files: list[str], batches: list[Batch]) -> ImageSet:
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
