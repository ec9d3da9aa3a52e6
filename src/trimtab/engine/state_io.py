"""Saved streams: safetensors with a JSON header, written whole or not at all, believed only after every check.

The header says what the arrays mean (format, method, parameters, classes, a hash of the task) and carries a checksum of
itself and of every array, so that a truncated, edited or foreign file is told from a good one before anything is used.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from trimtab.engine.state import Arrays, fill
from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.methods import make_method
from trimtab.task import Task

if TYPE_CHECKING:
    from trimtab.methods.base import Method
    from trimtab.stream import Stream

FORMAT = "trimtab-state"
VERSION = 1


def save(stream: "Stream", path: Path) -> None:
    """Write a stream's state; an older file stays whole until the new one is."""
    arrays = stream.arrays()
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "method": stream.method.name,
        "parameters": stream.method.parameters(),
        "class_names": list(stream.task.class_names),
        "task": stream.task.fingerprint,
        "seen": stream.seen,
    }
    metadata = {"trimtab": json.dumps(header), "checksum": _checksum(header, arrays)}
    payload = to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
    try:
        write_whole(path, payload)
    except OSError as error:
        raise TrimtabError(f"The state cannot be written to {path}: {error.strerror or error}.") from error


def load(path: Path, task: Task, method: "Method | None" = None) -> "Stream":
    """A new stream from a saved state, after checking that the file is whole and belongs to this task and method."""
    header, checksum, arrays = _read(path)
    if checksum != _checksum(header, arrays):
        raise TrimtabError(f"{path} has been changed or damaged since it was saved (its checksum differs).")
    _check_task(path, header, task)
    if method is None:
        method = make_method(header["method"], **_tuples(header["parameters"]))
    elif (method.name, _plain(method.parameters())) != (header["method"], header["parameters"]):
        raise TrimtabError(
            f"{path} was saved by {header['method']} with {header['parameters']}, "
            f"not by {method.name} with {_plain(method.parameters())}."
        )
    stream = method.start(task)
    live = stream.arrays()
    if {n: (a.shape, a.dtype) for n, a in live.items()} != {n: (a.shape, a.dtype) for n, a in arrays.items()}:
        raise TrimtabError(f"{path} does not hold the arrays that {method.name} keeps; save the state again.")
    fill(live, arrays)
    return stream


def _read(path: Path) -> tuple[dict[str, Any], str, Arrays]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata.get("trimtab", "{}"))
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise TrimtabError(f"There is no saved state at {path}.") from error
    except OSError as error:
        raise TrimtabError(f"The state at {path} cannot be read: {error.strerror or error}.") from error
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TrimtabError(f"{path} is not a whole saved state (truncated, or another kind of file).") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TrimtabError(f"{path} is a safetensors file but not a state saved by trimtab.")
    if header.get("version") != VERSION:
        raise TrimtabError(
            f"{path} has state format {header.get('version')}, this trimtab reads {VERSION}; "
            "use the version that saved it, or start anew."
        )
    return header, str(metadata.get("checksum")), arrays


def _check_task(path: Path, header: dict[str, Any], task: Task) -> None:
    saved = header["class_names"]
    if list(task.class_names) != saved:
        differing = next((a, b) for a, b in _padded(saved, task.class_names) if a != b)
        raise TrimtabError(
            f"{path} was saved for {len(saved)} other classes than the {task.classes} of this task "
            f"(first difference: {differing[0]!r} there, {differing[1]!r} here)."
        )
    if header["task"] != task.fingerprint:
        raise TrimtabError(
            f"{path} was saved with other text prototypes or another logit scale for the same class names; "
            "use the same encoder and prompts."
        )


def _padded(left: list[str], right: Any) -> list[tuple[Any, Any]]:
    length = max(len(left), len(right))
    return list(zip([*left, *[None] * (length - len(left))], [*right, *[None] * (length - len(right))], strict=True))


def _checksum(header: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(_plain(header), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON would give it back: tuples become lists."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _tuples(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
