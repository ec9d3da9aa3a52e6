"""The two forms in which CIFAR is published: records of bytes, and pickled Python dictionaries."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError

PIXEL_BYTES = 3 * 32 * 32
# All that the published pickles need: arrays, and the bytes of strings that Python 2 wrote.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True, eq=False)
class Batch:
    """One file's labels (n,) and pixels (n, 3072)."""

    labels: NDArray[np.int64]
    pixels: NDArray[np.uint8]


def read_binary(file: Path, label_bytes: int) -> Batch:
    """Records of `label_bytes` labels, of which the last one counts, and 3072 pixels."""
    content = np.fromfile(file, dtype=np.uint8)
    record = label_bytes + PIXEL_BYTES
    if len(content) == 0 or len(content) % record:
        raise TrimtabError(f"{file} is truncated ({len(content)} bytes are no whole number of images); copy it again.")
    table = content.reshape(-1, record)
    return Batch(table[:, label_bytes - 1].astype(np.int64), table[:, label_bytes:])


def read_python(file: Path, label_key: str) -> Batch:
    """A pickled dictionary with `data` and a list of labels."""
    content = _unpickled(file)
    try:
        labels, pixels = np.asarray(content[label_key.encode()], np.int64), content[b"data"]
    except (KeyError, TypeError, ValueError) as error:
        raise TrimtabError(f"{file} is not a CIFAR batch: it lacks {error}.") from error
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXEL_BYTES):
        raise TrimtabError(f"{file} is not a CIFAR batch: its images and its {len(labels)} labels do not match.")
    return Batch(labels, pixels)


def read_class_names(file: Path, key: str) -> tuple[str, ...]:
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
        raise TrimtabError(f"{file} is damaged or no CIFAR file: {error}.") from error
    if not isinstance(content, dict):
        raise TrimtabError(f"{file} is damaged or no CIFAR file: it holds no dictionary.")
    return content
