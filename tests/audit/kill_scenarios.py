"""What is killed, and how one sees that nothing was lost or done twice: by comparing with a run that nobody stopped."""

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from tests.audit.kill_processes import environment
from tests.bench_stores import make_store
from tests.tiny_encoder import COLORS, colored
from trimtab.encoders.prompted.context_files import read_context
from trimtab.engine.state_io import read_state

NAMES = tuple(COLORS)
LABELS = ("--labels", ",".join(NAMES))


class AuditError(AssertionError):
    """Something is lost or doubled; `kind` says which."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Scenario(Protocol):
    """A command on prepared inputs. Its results lie in the folder that it runs in."""

    name: str
    share: int  # of a hundred cases
    cold: float  # share of its starts that are a new interpreter

    def prepare(self, inputs: Path) -> None:
        """Make what the command reads."""

    def arguments(self) -> Sequence[str]:
        """The command line."""

    def is_done(self, folder: Path) -> bool:
        """Whether to run it again makes no sense, because it refuses to overwrite a finished result."""

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        """An error if Ctrl-C or SIGTERM has lost something already; a kill before may be under repair still."""

    def check_finished(self, folder: Path, whole: Path) -> None:
        """An error if the result differs from that in `whole`, which was never stopped."""


class Classify:
    name, share, cold = "classify", 40, 0.03

    def prepare(self, inputs: Path) -> None:
        self.photos = inputs / "photos"
        self.photos.mkdir()
        for number in range(40):
            name = NAMES[number % 4]
            Image.fromarray(colored(name, seed=number, noise=120)).save(self.photos / f"{number} {name}.png")

    def arguments(self) -> Sequence[str]:
        files = ("--format", "csv", "-o", "lines.csv", "--state", "state")
        return ("classify", str(self.photos), str(self.photos / "3 yellow.png"), *LABELS, *files)

    def is_done(self, folder: Path) -> bool:
        return False

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        file, state = folder / "lines.csv", folder / "state"
        lines = _paths(file)
        seen = int(_learned(state)["seen"][0]) if state.exists() else 0
        if killed_before and lines and state.exists():  # the rest will be learned again
            lines = lines[: file.read_bytes()[: read_state(state).note["bytes"]].count(b"\n") - 1]
        if seen != len(lines):
            raise AuditError("doubled" if seen > len(lines) else "lost", f"{seen} images learned, {len(lines)} lines")

    def check_finished(self, folder: Path, whole: Path) -> None:
        found, expected = (Counter(_paths(place / "lines.csv")) for place in (folder, whole))
        if found - expected:
            raise AuditError("doubled", f"lines too many: {found - expected}")
        if (folder / "lines.csv").read_bytes() != (whole / "lines.csv").read_bytes():
            raise AuditError("lost", f"other lines; missing: {expected - found}")
        learned, all_learned = _learned(folder / "state"), _learned(whole / "state")
        different = [name for name, array in all_learned.items() if not np.array_equal(learned[name], array)]
        if different:
            kind = "doubled" if learned["seen"] > all_learned["seen"] else "lost"
            raise AuditError(kind, f"another state: {different}, {learned['seen']} images")


class Encode:
    name, share, cold = "encode", 20, 0.03

    def prepare(self, inputs: Path) -> None:
        self.photos = _labeled(inputs / "classes", 60, noise=40)

    def arguments(self) -> Sequence[str]:
        return ("encode", str(self.photos), "-o", "store", "--views", "2", "--batch", "4")

    def is_done(self, folder: Path) -> bool:
        return False

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        pass  # what counts is the store in the end

    def check_finished(self, folder: Path, whole: Path) -> None:
        from trimtab.features import FeatureStore

        found, expected = (FeatureStore.open(place / "store") for place in (folder, whole))
        found.verify()
        if list(found.ids) != list(expected.ids):
            raise AuditError("doubled" if len(found) > len(expected) else "lost", f"{len(found)} images in the store")
        rows = list(range(len(expected)))
        if not np.array_equal(found.rows(rows), expected.rows(rows)):
            raise AuditError("lost", "other features in the store")
        _refuse_litter(folder / "store")


class Learn:
    name, share, cold = "learn", 15, 0.03

    def prepare(self, inputs: Path) -> None:
        self.photos = _labeled(inputs / "labeled", 24, noise=120)

    def arguments(self) -> Sequence[str]:
        how = ("--shots", "4", "--length", "2", "--epochs", "60", "--batch", "5", "--views", "2")
        return ("learn", "coop", str(self.photos), *how, "-o", "context.safetensors")

    def is_done(self, folder: Path) -> bool:
        return False

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        pass  # what counts is the context in the end

    def check_finished(self, folder: Path, whole: Path) -> None:
        found, expected = (read_context(place / "context.safetensors") for place in (folder, whole))
        if not np.array_equal(found.context, expected.context) or found.learned_as != expected.learned_as:
            raise AuditError("lost", "another context")
        beside = [file.name for file in folder.glob("context.safetensors.*")]
        if beside:
            raise AuditError("litter", f"left behind: {beside}")
        _refuse_litter(folder)


class Bench:
    name, share, cold = "bench", 20, 0.03

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers

    def prepare(self, inputs: Path) -> None:
        self.store = inputs / f"store-{self._workers}"
        make_store(self.store, images=60)

    def arguments(self) -> Sequence[str]:
        plan = ("--methods", "mcp,tda", "--orders", "2", "--weights", "fixed", "--workers", str(self._workers))
        return ("bench", str(self.store), *plan, "-o", "results")

    def is_done(self, folder: Path) -> bool:
        return False

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        pass  # what counts are the records in the end

    def check_finished(self, folder: Path, whole: Path) -> None:
        found, expected = (_records(place / "results") for place in (folder, whole))
        if found.keys() - expected.keys():
            raise AuditError("doubled", f"records too many: {sorted(found.keys() - expected.keys())}")
        if found != expected:
            raise AuditError(
                "lost", f"other records: {[name for name in expected if found.get(name) != expected[name]]}"
            )


class BenchSideBySide(Bench):
    name, share, cold = "bench, 2 workers", 3, 1.0

    def __init__(self) -> None:
        super().__init__(workers=2)


class Export:
    name, share, cold = "export", 2, 1.0

    def prepare(self, inputs: Path) -> None:
        self.clip = inputs / "clip"
        _elsewhere(f"from tests import tiny_clips; tiny_clips.save_hf_clip(pathlib.Path({str(self.clip)!r}))")

    def arguments(self) -> Sequence[str]:
        return ("export", "--encoder", f"hf:{self.clip}", "-o", "onnx")

    def is_done(self, folder: Path) -> bool:
        return (folder / "onnx").exists()

    def check_stopped(self, folder: Path, killed_before: bool) -> None:
        pass  # what counts is the folder in the end

    def check_finished(self, folder: Path, whole: Path) -> None:
        found, expected = (sorted(file.name for file in (place / "onnx").iterdir()) for place in (folder, whole))
        if found != expected:
            raise AuditError("lost", f"a folder that is not whole: {found}")
        _elsewhere(f"from trimtab.encoders import load_encoder; load_encoder({'onnx:' + str(folder / 'onnx')!r})")


SCENARIOS: tuple[type[Scenario], ...] = (Classify, Encode, Learn, Bench, BenchSideBySide, Export)


def _labeled(folder: Path, count: int, noise: int) -> Path:
    """A folder for each color, with pictures of it."""
    for number in range(count):
        name = NAMES[number % 4]
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(name, seed=number, noise=noise)).save(folder / name / f"{number}.png")
    return folder


def _elsewhere(program: str) -> None:
    """Run a line of Python in another process: torch and its threads stay out of the one that forks."""
    done = subprocess.run(
        [sys.executable, "-c", f"import pathlib; {program}"], env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise AuditError("lost", done.stderr)


def _paths(file: Path) -> list[str]:
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [row["path"] for row in csv.DictReader(lines)]


def _learned(state: Path) -> dict[str, np.ndarray]:
    return read_state(state).arrays


def _records(folder: Path) -> dict[str, object]:
    """What the records say, without when and how fast."""
    passing = ("cost", "finished", "machine", "checksum")
    found = {}
    for file in folder.rglob("*.json"):
        if not file.name.startswith("."):
            content = json.loads(file.read_bytes())
            found[file.relative_to(folder).as_posix()] = {k: v for k, v in content.items() if k not in passing}
    return found


def _refuse_litter(folder: Path) -> None:
    litter = [file.name for file in folder.rglob(".*")]
    if litter:
        raise AuditError("litter", f"left behind: {litter}")
