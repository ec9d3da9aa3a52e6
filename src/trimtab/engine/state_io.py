"""Saved states: safetensors with a JSON header, written whole or not at all, believed only after every check.

The header says what the arrays mean (format, method, parameters, classes, a hash of the task) and carries a checksum of
itself and of every array, so that a truncated, edited or foreign file is recognized before anything is used.
"""

import hashlib
import json
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from trimtab.engine.arrays import Arrays
from trimtab.engine.state_upgrades import BEFORE, upgraded_arrays, upgraded_guard
from trimtab.errors import TrimtabError
from trimtab.files import refuse_special, write_whole
from trimtab.task import Task

FORMAT = "trimtab-state"
VERSION = 11


@dataclass(frozen=True, eq=False)
class SavedState:
    """What a file holds of a stream. The method is known by its name and parameters only."""

    method: str
    parameters: dict[str, Any]
    class_names: list[str]
    task: str  # its fingerprint
    seen: int
    arrays: Arrays
    note: dict[str, Any] = field(default_factory=dict)  # whatever its owner wants to find again, as JSON
    guard: dict[str, Any] | None = None  # the guard's parameters; None: there was none
    version: int = VERSION  # of the format that its arrays have


def write_state(path: Path, state: SavedState) -> None:
    """Write a state; an older file stays whole until the new one is."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "method": state.method,
        "parameters": state.parameters,
        "class_names": state.class_names,
        "task": state.task,
        "seen": state.seen,
        **({"note": state.note} if state.note else {}),
        **({"guard": state.guard} if state.guard is not None else {}),
    }
    metadata = {"trimtab": json.dumps(header), "checksum": _checksum(header, state.arrays)}
    payload = to_bytes({name: np.ascontiguousarray(array) for name, array in state.arrays.items()}, metadata)
    try:
        write_whole(path, payload)
    except OSError as error:
        raise TrimtabError(f"The state cannot be written to {path}: {error.strerror or error}.") from error


def read_state(path: Path) -> SavedState:
    """The state in a file, after checking that the file is whole, unchanged and of this format."""
    header, checksum, arrays = _read(path)
    if checksum != _checksum(header, arrays):
        raise TrimtabError(f"{path} has been changed or damaged since it was saved (its checksum differs).")
    guard = header.get("guard")
    if header["version"] in BEFORE and guard is not None:
        guard = upgraded_guard(guard)
    return SavedState(
        method=header["method"],
        parameters={name: tuple(v) if isinstance(v, list) else v for name, v in header["parameters"].items()},
        class_names=header["class_names"],
        task=header["task"],
        seen=header["seen"],
        arrays=arrays,
        note=header.get("note", {}),
        guard=guard,
        version=header["version"],
    )


def check_task(path: Path, saved: SavedState, task: Task) -> None:
    """Refuse a state that was saved for another task."""
    if list(task.class_names) != saved.class_names:
        differing = next((a, b) for a, b in zip_longest(saved.class_names, task.class_names) if a != b)
        raise TrimtabError(
            f"{path} was saved for {len(saved.class_names)} other classes than the {task.classes} of this task "
            f"(first difference: {differing[0]!r} there, {differing[1]!r} here)."
        )
    if saved.task != task.fingerprint:
        raise TrimtabError(
            f"{path} was saved with other text prototypes or another logit scale for the same class names; "
            "use the same encoder and prompts."
        )


def check_method(path: Path, saved: SavedState, method: str, parameters: dict[str, Any]) -> None:
    """Refuse a state that was saved by another method, or by the same with other parameters."""
    if saved.method != method:
        raise TrimtabError(f"{path} was saved by {saved.method}, not by {method}.")
    if saved.parameters != parameters:
        names = {**saved.parameters, **parameters}
        differing = [name for name in names if saved.parameters.get(name) != parameters.get(name)]
        there, here = (", ".join(f"{n}={p.get(n)!r}" for n in differing) for p in (saved.parameters, parameters))
        raise TrimtabError(f"{path} was saved by {method} with {there}, not with {here}.")


def completed(saved: SavedState, task: Task, start: Arrays) -> Arrays:
    """The arrays of a state, those of a format before with what it lacks; `start` are a new stream's."""
    return upgraded_arrays(saved.method, task, saved.arrays, start) if saved.version in BEFORE else saved.arrays


def _read(path: Path) -> tuple[dict[str, Any], str, Arrays]:
    try:
        refuse_special(path)
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
    if header.get("version") not in (*BEFORE, VERSION):
        raise TrimtabError(
            f"{path} has state format {header.get('version')}, this trimtab reads {BEFORE[0]} to {VERSION}; "
            "use the version that saved it, or start again without it."
        )
    return header, str(metadata.get("checksum")), arrays


def _checksum(header: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
