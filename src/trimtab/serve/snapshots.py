"""Snapshots: states to go back to. Each is one file that any trimtab program can read; its notes are inside."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from trimtab.errors import TrimtabError
from trimtab.serve.refusals import NoSuchSnapshot
from trimtab.stream import Stream

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
NOTE = "snapshot"  # where a saved stream notes what is known of it
ENDING = ".safetensors"
MOST_ON_REQUEST = 100


@dataclass(frozen=True)
class Snapshot:
    """What is known of a snapshot. `when` is for people; the order is that of the names."""

    name: str
    seen: int
    when: float  # seconds since 1970
    bytes: int
    agreement: float | None
    note: str
    automatic: bool


class Snapshots:
    """The snapshots in a folder: the last automatic ones, and those that somebody asked for."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self._keep = folder, keep

    def list(self) -> list[Snapshot]:
        """The newest first."""
        try:
            names = sorted((path.stem for path in self.folder.glob(f"[!.]*{ENDING}")), reverse=True)
        except FileNotFoundError:  # the stream has just been deleted
            return []
        return [self._read(name) for name in names]

    def path(self, name: str) -> Path:
        """The file of a snapshot."""
        path = self.folder / f"{name}{ENDING}"
        if not isinstance(name, str) or NAME.fullmatch(name) is None or not path.is_file():
            raise NoSuchSnapshot(f"There is no snapshot {name!r}; the list of snapshots has the names.")
        return path

    def content(self, name: str) -> bytes:
        """The file of a snapshot, whole."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:  # deleted between the two
            raise NoSuchSnapshot(f"There is no snapshot {name!r} any more.") from None

    def take(self, name: str, stream: Stream, facts: Mapping[str, Any]) -> Snapshot:
        """Keep a state under a name; where it is an automatic one, the oldest of these go."""
        asked_for = not facts.get("automatic")
        if asked_for and sum(not snapshot.automatic for snapshot in self.list()) >= MOST_ON_REQUEST:
            raise TrimtabError(f"There are {MOST_ON_REQUEST} snapshots; delete one before you take another.")
        stream.note[NOTE] = dict(facts)
        stream.save(self.folder / f"{name}{ENDING}")
        self._drop_old()
        return self._read(name)

    def adopt(self, name: str, state: Path) -> Snapshot:
        """Keep a state that is on the disk already."""
        target = self.folder / f"{name}{ENDING}"
        try:
            os.link(state, target)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            shutil.copyfile(state, target)
        self._drop_old()
        return self._read(name)

    def delete(self, name: str) -> None:
        """Let go of one."""
        self.path(name).unlink(missing_ok=True)

    def _drop_old(self) -> None:
        automatic = [snapshot.name for snapshot in self.list() if snapshot.automatic]
        for old in automatic[self._keep :]:
            self.delete(old)

    def _read(self, name: str) -> Snapshot:
        path = self.folder / f"{name}{ENDING}"
        facts: dict[str, Any] = {"note": "It cannot be read."}
        seen = size = 0
        with suppress(OSError, SafetensorError, ValueError, KeyError, TypeError):
            size = path.stat().st_size
            with safe_open(path, "numpy") as file:
                header = json.loads(file.metadata()["trimtab"])
            seen, facts = int(header["seen"]), header["note"][NOTE]
        return Snapshot(
            name=name,
            seen=seen,
            when=float(facts.get("when", 0.0)),
            bytes=size,
            agreement=facts.get("agreement"),
            note=str(facts.get("note", "")),
            automatic=bool(facts.get("automatic", False)),
        )
