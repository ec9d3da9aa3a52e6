"""Checkpoints: where the journal starts from. A state, and beside it what else is remembered; two are kept.

The second-last stays, with the journal since then: should the last be damaged, nothing is lost.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.files import write_whole
from trimtab.serve.folder import sealed, unsealed
from trimtab.serve.memory import Memory
from trimtab.steps import Steps
from trimtab.stream import Stream
from trimtab.task import Task

FORMAT, VERSION = "trimtab-checkpoint", 1
KEPT = 2
STATE, NOTE, ASIDE = ".safetensors", ".json", ".damaged"


def note_of(number: int, memory: Memory) -> bytes:
    """What a checkpoint holds beside the state, as it is now: the memory keeps changing."""
    return sealed({"format": FORMAT, "version": VERSION, "number": number, "memory": memory.to_note()})


class Checkpoints:
    """The checkpoints in a folder, each known by the number of the journal's entry that comes next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """The newest first."""
        return sorted((int(path.stem) for path in self.folder.glob(f"*{STATE}") if path.stem.isdecimal()), reverse=True)

    def state(self, number: int) -> Path:
        """The file of a checkpoint's state."""
        return self.folder / f"{number:020d}{STATE}"

    def write(self, number: int, note: bytes, stream: Stream) -> None:
        """Write a checkpoint: it is there once its state is. OSError or TrimtabError if that cannot be done."""
        write_whole(self.state(number).with_suffix(NOTE), note)
        stream.save(self.state(number))

    def load(self, number: int, task: Task, method: Steps) -> tuple[dict[str, Any], Stream]:
        """What was written, after all checks."""
        about = unsealed(self.state(number).with_suffix(NOTE), FORMAT, VERSION)
        return about["memory"], Stream.load(self.state(number), task, method)

    def set_aside(self, number: int) -> None:
        """A checkpoint is damaged: keep it from being taken for one."""
        path = self.state(number)
        with suppress(OSError):
            path.replace(path.with_suffix(STATE + ASIDE))

    def drop_old(self) -> int | None:
        """Remove all but the last; the number of the oldest that is left."""
        kept = self.numbers()[:KEPT]
        if not kept:
            return None
        for path in self.folder.glob("*[0-9].*"):
            if path.suffix in (STATE, NOTE) and int(path.stem) < kept[-1]:
                path.unlink(missing_ok=True)
        return kept[-1] if len(kept) == KEPT else None
