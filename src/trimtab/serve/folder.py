"""StreamFolder: where a stream keeps what; and what it was made with, written once.

summary.json         a few facts for lists, as of when it fell asleep
stream.json          settings, logit scale, fingerprint of the task
text.npy             (C, d) text prototypes
journal/             every change since the second-last checkpoint
checkpoints/         states that the journal starts from, and what else is remembered
given/               states that were put in the place of the stream's, as long as the journal speaks of them
snapshots/           states to go back to
thumbnails/          small pictures, if they were asked for
"""

import hashlib
import io
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.files import sweep, write_whole
from trimtab.serve.journal import sync_folder
from trimtab.serve.refusals import Damaged, StreamExists
from trimtab.serve.settings import StreamSettings
from trimtab.task import Task

FORMAT, VERSION = "trimtab-stream", 1
ROOMS = ("journal", "checkpoints", "given", "snapshots", "thumbnails")
BEING_MADE, GONE = ".new-", ".gone-"  # how the names begin of folders that are not streams yet, or no longer


class StreamFolder:
    """The folder of one stream."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal, self.checkpoints, self.given, self.snapshots, self.thumbnails = (path / room for room in ROOMS)

    def make(self, settings: StreamSettings, text: Array, logit_scale: float) -> None:
        """Write down what a stream is made with; the folder appears whole or not at all."""
        given = np.asarray(text, np.float32)  # not as the task makes them unit: twice made unit, rows may move
        task = Task(settings.labels, given, logit_scale)
        if self.path.exists():
            raise StreamExists(f"There is a stream {settings.name!r} already; delete it first, or choose another name.")
        new = self.path.with_name(f"{BEING_MADE}{settings.name}-{secrets.token_hex(4)}")
        try:
            for room in ROOMS:
                (new / room).mkdir(parents=True, mode=0o700)
            array = io.BytesIO()
            np.save(array, given)
            write_whole(new / "text.npy", array.getvalue())
            about = {
                "format": FORMAT,
                "version": VERSION,
                "settings": settings.to_dict(),
                "logit_scale": task.logit_scale,
                "task": task.fingerprint,
            }
            write_whole(new / "stream.json", sealed(about))
            new.rename(self.path)
            sync_folder(self.path.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def read(self) -> tuple[StreamSettings, float, str]:
        """Settings, logit scale, and the task's fingerprint."""
        about = unsealed(self.path / "stream.json", FORMAT, VERSION)
        return StreamSettings.from_dict(about["settings"]), float(about["logit_scale"]), str(about["task"])

    def task(self) -> Task:
        """The task: labels, text prototypes, logit scale."""
        settings, scale, fingerprint = self.read()
        try:
            text: Array = np.load(self.path / "text.npy", allow_pickle=False)
            task = Task(settings.labels, text, scale)
        except (OSError, ValueError, EOFError) as error:
            raise Damaged(f"The text prototypes in {self.path} cannot be read: {error}.") from error
        if task.fingerprint != fingerprint:
            raise Damaged(f"The text prototypes in {self.path} are not those that the stream was made with.")
        return task

    def tidy(self) -> None:
        """Remove what a kill has left half written."""
        for room in ROOMS:
            (self.path / room).mkdir(exist_ok=True)
            sweep(self.path / room)
        sweep(self.path)

    def remove(self) -> None:
        """Delete all of it; a kill leaves the stream, or nothing that is taken for one."""
        gone = self.path.with_name(f"{GONE}{self.path.name}-{secrets.token_hex(4)}")
        self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def sealed(about: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself."""
    text = json.dumps(about)
    return f'{{"checksum": "{_checksum(text)}", "about": {text}}}\n'.encode()


def unsealed(path: Path, kind: str, newest: int) -> dict[str, Any]:
    """What `sealed` was made from, after checking that the file is whole and of a kind and version known here."""
    try:
        found = json.loads(path.read_bytes())
        about: dict[str, Any] = found["about"]
        whole = found["checksum"] == _checksum(json.dumps(about)) and about["format"] == kind
    except FileNotFoundError:
        raise Damaged(f"{path} is missing.") from None
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise Damaged(f"{path} has been changed or damaged since it was written; put a copy of it back.")
    if not 1 <= about["version"] <= newest:
        raise Damaged(f"{path} is of version {about['version']}, and this trimtab reads up to {newest}.")
    return about


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def clear_leftovers(folder: Path) -> None:
    """Remove streams that were being made or deleted when a process was killed."""
    for entry in os.scandir(folder):
        if entry.name.startswith((BEING_MADE, GONE)):
            shutil.rmtree(entry.path, ignore_errors=True)
