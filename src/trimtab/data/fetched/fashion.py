"""Fashion-MNIST: 28 x 28 gray pictures of clothes, 10 classes, 10,000 for testing.

Its authors' files and Debian's are packed differently and hold the same, so the checksums are of what is inside.
"""

import gzip
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import GrayImages, ImageSet
from trimtab.data.fetched.fetch import Source, fetched_files, from_authors, unpack_gzip, with_apt
from trimtab.errors import TrimtabError
from trimtab.files import cache_folder

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
SHA256: Final = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
AUTHORS_FOLDER: Final = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
DEBIAN_PACKAGE: Final = "dataset-fashion-mnist"
DEBIAN_FOLDER: Final = "usr/share/datasets/fashion-mnist"  # below the root, or below where the package is unpacked
IMAGES, LABELS = 0x803, 0x801  # the magic numbers at the start of the two files


def fashion_mnist(split: Literal["test", "train"] = "test", root: Path | None = None) -> ImageSet:
    """The set from `root` (as torchvision lays it out, or the four files themselves), else fetched."""
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
    installed = Path("/") / DEBIAN_FOLDER
    if all((installed / f"{name}.gz").exists() for name in SHA256):
        return installed
    return fetched_files(
        "Fashion-MNIST",
        31,
        cache_folder("fashion-mnist"),
        SHA256,
        [Source("its authors' page", _from_authors), Source("Debian", _from_debian)],
        f"put {', '.join(SHA256)} into that folder",
    )


def _from_authors(scratch: Path) -> None:
    from_authors({f"{name}.gz": f"{AUTHORS_FOLDER}/{name}.gz" for name in SHA256}, "Fashion-MNIST", scratch)
    for name in SHA256:
        unpack_gzip(scratch / f"{name}.gz", scratch / name)


def _from_debian(scratch: Path) -> None:
    unpacked = with_apt(DEBIAN_PACKAGE, scratch) / DEBIAN_FOLDER
    for name in SHA256:
        unpack_gzip(unpacked / f"{name}.gz", scratch / name)


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
        raise TrimtabError(f"{folder / name} is not a complete IDX file; fetch Fashion-MNIST again.")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(header[1:])
