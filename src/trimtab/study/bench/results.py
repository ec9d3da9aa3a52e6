"""A folder of results: the plan that it shall hold, the records that it does hold, and what is still missing."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.methods import method_class
from trimtab.study.bench.dependencies import code_fingerprint
from trimtab.study.bench.plan import Plan, Run
from trimtab.study.bench.record import Record, read_record

PLAN = "plan.json"
PLAN_FORMAT = "trimtab-plan"


@dataclass(frozen=True)
class Results:
    """The records of a folder, and the files that its plan names but nobody has written yet."""

    folder: Path
    records: tuple[Record, ...]
    missing: tuple[str, ...]

    @property
    def note(self) -> str:
        """What a reader of an unfinished folder must know; empty if nothing is missing."""
        if not self.missing:
            return ""
        whole = len(self.records) + len(self.missing)
        return (
            f"UNFINISHED: {len(self.missing)} of {whole} planned runs are missing; "
            "run the same `trimtab bench` again to continue."
        )


def read_results(folder: str | Path) -> Results:
    """Every record below a folder."""
    root = arguments.place("folder", folder)
    if not root.is_dir():
        raise TrimtabError(f"There is no folder {root}; make it with `trimtab bench FEATURES -o {root}`.")
    files = sorted(path for path in root.rglob("*.json") if path.name != PLAN and not path.name.startswith("."))
    planned = _planned(root)
    if not files:
        state = "its benchmark has not finished a run yet" if planned else "it was not written by `trimtab bench`"
        raise TrimtabError(f"{root} holds no records: {state}.")
    present = {path.relative_to(root).as_posix() for path in files}
    missing = tuple(file for file in planned if file not in present)
    return Results(root, tuple(read_record(path) for path in files), missing)


def note_plan(folder: Path, plan: Plan) -> None:
    """Write down what a folder shall hold, beside what it shall hold already."""
    folder.mkdir(parents=True, exist_ok=True)
    files = list(dict.fromkeys([*_planned(folder), *plan.files]))
    content = {"format": PLAN_FORMAT, "version": 1, "records": files}
    write_whole(folder / PLAN, json.dumps(content, indent=1).encode())


def still_to_run(folder: Path, runs: Iterable[Run]) -> list[Run]:
    """The runs without good records of this very code: what is new, failed, cut off or out of date."""
    return [run for run in runs if not all(_is_good(folder / file, run.method) for file in run.files.values())]


def _is_good(path: Path, method: str) -> bool:
    if not path.is_file():
        return False
    try:
        record = read_record(path)
    except TrimtabError:
        return False
    return record.ok and record.versions.get("code") == code_fingerprint(method_class(method))


def _planned(folder: Path) -> list[str]:
    path = folder / PLAN
    if not path.is_file():
        return []
    try:
        content = json.loads(path.read_bytes())
        files: list[str] = content["records"]
    except (ValueError, KeyError, TypeError):
        raise TrimtabError(f"{path} is damaged; delete it and run the benchmark again.") from None
    if content.get("version") != 1:
        raise TrimtabError(f"{path} was written by a newer trimtab; use that version.")
    return files
