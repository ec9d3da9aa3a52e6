"""Fashion-MNIST: 28 x 28 grey pictures of clothes, 10 classes, 10,000 for testing."""

import gzip
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import GrayImages, ImageSet
from trimtab.data.fetched.fetch import fetched_from_debian
from trimtab.errors import TrimtabError

CLASS_NAMES: Final = (
    "t-shirt",
    "pair of trousers",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
FILES: Final = {"train": "train-{}-ubyte", "test": "t10k-{}-ubyte"}
IMAGES, LABELS = 0x803, 0x801  # the magic numbers at the start of the two files


def fashion_mnist(split: Literal["test", "train"] = "test", root: Path | None = None) -> ImageSet:
    """The set from `root` (as torchvision lays it out, or the four files themselves), or from Debian's package."""
    folder = _folder(root)
    images = _read(folder, FILES[split].format("images-idx3"), IMAGES, dimensions=3)
    labels = _read(folder, FILES[split].format("labels-idx1"), LABELS, dimensions=1)
    if len(images) != len(labels):
        raise TrimtabError(f"{folder} holds {len(images)} images but {len(labels)} labels; fetch the files again.")
    return ImageSet(
        name="fashion-mnist",
        class_names=CLASS_NAMES,
        labels=labels.astype(np.int64),
        ids=[f"{split}/{index}" for index in range(len(labels))],
        load=GrayImages(images),
    )


def _folder(root: Path | None) -> Path:
    if root is not None:
        for place in (root / "FashionMNIST" / "raw", root / "fashion-mnist", root):
            if any((place / (FILES["test"].format("images-idx3") + suffix)).exists() for suffix in ("", ".gz")):
                return place
    names = [pattern.format(part) + ".gz" for pattern in FILES.values() for part in ("images-idx3", "labels-idx1")]
    return fetched_from_debian("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist", names, megabytes=31)


def _read(folder: Path, name: str, magic: int, dimensions: int) -> NDArray[np.uint8]:
    """One IDX file: a big-endian magic number, the sizes, then bytes."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    except (OSError, EOFError) as error:
        raise TrimtabError(f"{packed} cannot be read ({error}); fetch Fashion-MNIST again.") from None
    start = 4 * (1 + dimensions)
    header = np.frombuffer(data[:start], dtype=">u4").astype(np.int64) if len(data) >= start else np.zeros(1)
    if header[0] != magic or len(data) != start + header[1:].prod():
        raise TrimtabError(f"{folder / name} is no whole IDX file; fetch Fashion-MNIST again.")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(header[1:])
