"""Repair: the way out when a stream's journal or its checkpoints are damaged. What is lost is set aside, not deleted.

    python -m trimtab.serve.repair FOLDER/streams/NAME

Keeps the longest past that is whole: the last checkpoint that can be read, and the journal up to the first damage. If
no checkpoint can be read and the journal does not reach back to the beginning, the newest snapshot that can be read.
"""

import shutil
import sys
from pathlib import Path

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import FolderLock
from trimtab.serve.checkpoints import Checkpoints, note_of
from trimtab.serve.folder import StreamFolder
from trimtab.serve.journal import ENDING, FRAME, HEADER, whole_part
from trimtab.serve.ledger import Ledger
from trimtab.serve.memory import Memory
from trimtab.serve.refusals import Damaged
from trimtab.serve.snapshots import Snapshots
from trimtab.stream import Stream

ASIDE = ".damaged"
EPOCHS_APART = 1000  # so that no id is given again that the lost part of the past may have given


def repair(path: Path | str) -> str:
    """Make a stream's folder one that opens; sentences say what was kept. No server may be running on it."""
    folder = StreamFolder(arguments.place("path", path))
    lock = FolderLock(folder.path.parent.parent)
    try:
        return _repaired(folder)
    finally:
        lock.release()


def _repaired(folder: StreamFolder) -> str:
    name = folder.path.name
    damage = _damage(folder)
    if damage is None:
        return f"Stream {name!r} is whole; nothing was done."
    if damage.kept == 0 and (found := _newest_snapshot(folder)) is not None:
        _begin_from(folder, found)
        return f"{damage} It continues from its snapshot of {found.stream.seen} images."
    _cut(folder.journal, damage.kept)
    again = _damage(folder)
    if again is not None:
        raise again
    return f"{damage} It continues after the {damage.kept} changes before that."


def _damage(folder: StreamFolder) -> Damaged | None:
    """What keeps a stream from being opened."""
    try:
        Ledger(folder, folder.read()[0], folder.task()).close()
    except Damaged as error:
        return error
    return None


def _segments(journal: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in journal.glob(f"*{ENDING}") if path.stem.isdecimal())


def _cut(journal: Path, number: int) -> None:
    """Set the journal aside from an entry on; a group that holds it goes as a whole."""
    for first, path in _segments(journal):
        aside = path.with_suffix(ENDING + ASIDE)
        if first >= number:
            path.replace(aside)
            continue
        entries, _ = whole_part(path.read_bytes(), first)
        if first + len(entries) > number or path == _segments(journal)[-1][1]:
            shutil.copyfile(path, aside)
            with path.open("r+b") as file:
                file.truncate(_end_before(path.read_bytes(), number))


def _end_before(content: bytes, number: int) -> int:
    """Where the last group ends that holds only entries before a number."""
    end = HEADER.size
    while end + FRAME.size <= len(content):
        _, length, _, begins, count = FRAME.unpack_from(content, end)
        if begins + count > number:
            break
        end += FRAME.size + length
    return end


def _newest_snapshot(folder: StreamFolder) -> Memory | None:
    settings, task = folder.read()[0], folder.task()
    for snapshot in Snapshots(folder.snapshots, settings.keep_snapshots).list():
        memory = Memory(settings, task)
        try:
            path = folder.snapshots / f"{snapshot.name}.safetensors"
            memory.begin_from(Stream.load(path, task, memory.stream.method), EPOCHS_APART)
        except TrimtabError:
            continue
        return memory
    return None


def _begin_from(folder: StreamFolder, memory: Memory) -> None:
    """Make a checkpoint of what was found, after all that the journal has held."""
    ends = [first + len(whole_part(path.read_bytes(), first)[0]) for first, path in _segments(folder.journal)]
    checkpoints = Checkpoints(folder.checkpoints)
    memory.version = max([0, *ends, *checkpoints.numbers()]) + 1
    _cut(folder.journal, 0)
    checkpoints.write(memory.version, note_of(memory.version, memory), memory.saved_stream())


def main() -> int:
    """The command line."""
    if len(sys.argv) != 2:
        print("usage: python -m trimtab.serve.repair FOLDER/streams/NAME", file=sys.stderr)
        return 2
    try:
        print(repair(sys.argv[1]))
    except TrimtabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
