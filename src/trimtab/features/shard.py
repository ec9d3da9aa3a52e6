"""One file of a store's rows, as manifests list it, and the one spelling of files that checksums rest on."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shard:
    """One file of features; a large store's has checksums of its sidecars, too."""

    file: str
    rows: int
    size: int  # bytes
    sha256: str
    labels_sha256: str = ""
    ids_sha256: str = ""

    def entry(self) -> dict[str, Any]:
        """As a manifest lists it."""
        return {name: value for name, value in vars(self).items() if value != "" or not name.endswith("_sha256")}


def shard_file(number: int) -> str:
    """The name of a shard's file."""
    return f"shard-{number:05d}.npy"


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON with one spelling only, so that equal content has equal bytes; in ASCII, as file names need not be UTF-8."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def as_npy(array: NDArray[Any]) -> bytes:
    """The content of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
